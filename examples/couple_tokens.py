"""From a coupling to a transformer: how large must the head be, and what does each part cost?"""

import numpy as np

import exactformer as ef
from exactformer.targets import Coupling
from exactformer.theory import pod

# Every token becomes the mean of those near it: ρ falls with the distance.
target = Coupling(
    F=lambda h: h,
    f=lambda u: u,
    rho=lambda u, v: -20 * (u - v) ** 2,
    tau=8,
)

decomposition = pod(target.rho, measure="probability")
print(decomposition)

for head_dim in (1, 2, 3):
    model = ef.compile_coupling(target, head_dim, ff_width=1024, decomposition=decomposition)
    error = model.measure(samples=1000)
    print(f"head_dim {head_dim}: measured {error.value:.2e}, bound {model.certificate.bound():.2e}")

print()
print(model)
print()
print(error)

x = np.array([0.1, 0.12, 0.15, 0.4, 0.45, 0.8, 0.85, 0.9])
print("\ntarget", np.round(target(x), 5))
print("model ", np.round(model(x).detach().numpy(), 5))
