"""Webhooks: out, to addresses that others gave you, signed and guarded; and in, verified, stored and acknowledged."""

from .guard import ForbiddenUrl as ForbiddenUrl
from .guard import Guard as Guard
from .signing import new_secret as new_secret
from .verifiers import GitHubSignature as GitHubSignature
from .verifiers import HmacSignature as HmacSignature
from .verifiers import StandardSignature as StandardSignature
from .verifiers import StripeSignature as StripeSignature
from .webhooks import Endpoint as Endpoint
from .webhooks import Webhooks as Webhooks
