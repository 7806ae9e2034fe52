"""Follow one input through every block: features, scores, selections, powers."""

import torch

import exactformer as ef

torch.set_printoptions(precision=4, sci_mode=False, linewidth=120)

model = ef.compile("x^3 + x y", radius=2)
trace = model.trace([1.0, -0.5])

print("what a trace holds\n")
print(trace)

print("\nthe stream's dimensions:", ", ".join(trace.dimensions))
print("\nscores of block 1: every token's own is the largest of its row\n")
print(trace["block 1 scores"])

last = trace[f"block {model.blueprint.depth} output"]
for name in ("feature", "power 2", "power 3"):
    print(f"\n{name:8}", last[:, trace.dimensions.index(name)])

print("\noutput  ", trace["output"].item(), "= 1³ + 1·(−0.5)")
