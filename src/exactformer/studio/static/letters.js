// The two faces that nearly every formula needs, asked for before the formulas are drawn. (A preload
// would complain on pages without formulas.)
document.fonts.load("1em KaTeX_Main");
document.fonts.load("italic 1em KaTeX_Math");
