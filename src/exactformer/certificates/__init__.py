"""Blueprint and target to certificate. Shares no code with the constructions it judges."""

from exactformer.certificates.certificate import EXECUTORS, Certificate
from exactformer.certificates.certify import CERTIFIED_FORMATS, SLACK, certify_blueprint
from exactformer.certificates.softmax import SoftmaxCertificate

__all__ = [
    "CERTIFIED_FORMATS",
    "EXECUTORS",
    "SLACK",
    "Certificate",
    "SoftmaxCertificate",
    "certify_blueprint",
]
