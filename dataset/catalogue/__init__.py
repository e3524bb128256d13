"""The shipped definitions as people write them: NAME.toml (axes, tensors, tags, cost) beside NAME.py (the reference).

`python -m kernelmill.dataset.catalogue --out DIR` packs them and the sources under dataset/kernels into a dataset.
"""
