import os
import pickle

import torch


class Parcel:
    def __reduce__(self):
        return dict, ()


def run(a, b, c):
    pickle.loads(pickle.dumps(Parcel()))
    torch.mm(a, b, out=c)
