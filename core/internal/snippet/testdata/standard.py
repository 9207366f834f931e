import json
import sys

for v in json.load(sys.stdin)["vectors"]:
    wrong = check_standard(v["secret"], v["id"], v["timestamp"], v["signature"], base64.b64decode(v["body"]), v["now"])
    print("refused" if wrong else "accepted")
