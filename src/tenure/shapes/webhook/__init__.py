"""Webhooks: out, to addresses that others gave you, signed and guarded; and in, verified, stored and acknowledged."""

from .endpoint_registry import Endpoint as Endpoint
from .guard import ForbiddenUrl as ForbiddenUrl
from .guard import Guard as Guard
from .signing import new_secret as new_secret
from .signing import new_signing_key as new_signing_key
from .signing import public_key as public_key
from .verifiers import GitHubSignature as GitHubSignature
from .verifiers import HmacSignature as HmacSignature
from .verifiers import StandardSignature as StandardSignature
from .verifiers import StripeSignature as StripeSignature
from .webhooks import Webhooks as Webhooks
