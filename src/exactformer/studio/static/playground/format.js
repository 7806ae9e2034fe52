// Numbers for people.

const SUPERSCRIPTS = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};

export function short(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const power = [...String(Number(exponent))].map((c) => SUPERSCRIPTS[c]).join("");
    const plain = Number(mantissa);
    return `${minus(plain)}·10${power}`;
  }
  return minus(Number(value.toPrecision(digits)));
}

// A bound in a few digits, never below itself.
export function atMost(value, digits = 3) {
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  if (Number(`${mantissa}e${exponent}`) >= value) return short(value, digits);
  const raised = Number(mantissa.replace(".", "")) + 1;
  return short(Number(`${raised}e${Number(exponent) - digits + 1}`), digits);
}

export const minus = (value) => String(value).replace("-", "−");

export const counted = (count) => count.toLocaleString("en-GB");

export const plural = (count, word) => `${counted(count)} ${word}${count === 1 ? "" : "s"}`;
