"""How much KV fits on a server: GPUs, models, layouts, the split of memory, concurrency.

`kvlab.capacity` is the way in; `Architecture` and `Gpu` are what a cost model needs of a model and its hardware.
"""
