import base64
import json
import sys

for v in json.load(sys.stdin)["vectors"]:
    wrong = check(v["secret"], v["signature"], v["timestamp"], base64.b64decode(v["body"]), v["now"])
    print("refused" if wrong else "accepted")
