"""Prints the rights that CloudFormation needs for types of resources, by the schemas of their handlers, as JSON:
{type: [action...]}.

usage: handlers.py TYPE...
"""

import json
import sys

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

if __name__ == "__main__":
    found = {}
    for kind in sys.argv[1:]:
        handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema["handlers"]
        found[kind] = sorted({p for act, h in handlers.items() if act != "list" for p in h["permissions"]})
    json.dump(found, sys.stdout)
