"""What is applied to a cluster and to an account: CRDs, manifests, rights in AWS.

The local stack reads them too, so they are part of the package.
"""

import shared  # noqa: F401 - Ctrl-C ends in one line, also during the imports that follow
