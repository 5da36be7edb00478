"""Exit with 0 if the server of this container may have traffic: for HEALTHCHECK. Standard library only, and quick.

python healthcheck.py [PORT]
"""

import os
import sys
import urllib.error
import urllib.request

# A name that the pages answer to, whatever the installation is called: of * any, of .example.org that one itself.
host = os.environ.get("CRONIQ_ALLOWED_HOSTS", "").split(",")[0].strip().lstrip("*.") or "localhost"
port = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
request = urllib.request.Request(f"http://127.0.0.1:{port}/ready", headers={"Host": host})
# Not by the proxy that Docker or a company gives to every container: it knows another 127.0.0.1.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request, timeout=4) as answer:
        sys.exit(answer.status != 200)
except (OSError, urllib.error.URLError) as error:
    sys.exit(f"not ready: {error}")
