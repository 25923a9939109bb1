"""scikit-learn estimators: a multi-label classifier and a drop-in for `sklearn.neural_network.BernoulliRBM`.

    classifier.py     CRBMClassifier    a CRBM whose outputs are the labels
    transformer.py    RBMTransformer    an RBM whose visible units are the features
    shared.py         training epoch by epoch: `partial_fit` of both, and `fit` of the transformer

`CRBMClassifier.fit` is `crbm_fast.train`; everything else runs the same epochs by `training.loop`.  This is the only
package here that imports scikit-learn, and nothing else in crbm_fast imports it.
"""

try:
    from sklearn.utils.validation import validate_data  # noqa: F401 -- new in 1.6
except ImportError as error:
    raise ImportError(
        'crbm_fast.estimators needs scikit-learn 1.6 or later: pip install "crbm_fast[sklearn]"'
    ) from error

from crbm_fast.estimators.classifier import CRBMClassifier
from crbm_fast.estimators.transformer import RBMTransformer

__all__ = ["CRBMClassifier", "RBMTransformer"]
