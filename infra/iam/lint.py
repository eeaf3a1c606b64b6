"""Checks policies with parliament, which knows every action, resource and condition key of IAM.

stdin: what policies.py prints. It prints what is wrong, and exits with 1 then.
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore", message=".*pkg_resources.*")

from parliament import analyze_policy_string  # noqa: E402

# Condition keys that parliament reports although AWS documents them, and where.
DOCUMENTED = {
    # Of every request of a function's code, to any service.
    # https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
    "lambda:SourceFunctionArn",
    # Of the claims in a token of GitHub.
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html#condition-keys-wif
    "token.actions.githubusercontent.com:aud", "token.actions.githubusercontent.com:sub",
}

# Actions that may name every resource, and why.
EVERY = {
    "ecs:ListTasks",  # by family it names no resource; the condition names the cluster
    # For Lambda alone, as in AWS's own policy for functions in a VPC: their code is denied them.
    "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
}


def findings(policy):
    document = json.loads(json.dumps(policy["document"]))
    for statement in document["Statement"]:
        # The trust policy of a role: the role is the resource.
        if statement.pop("Principal", None) and "Resource" not in statement:
            statement["Resource"] = "arn:aws:iam::123456789012:role/this"
    for f in analyze_policy_string(json.dumps(document)).findings:
        if f.issue == "UNKNOWN_CONDITION_FOR_ACTION" and any(key in f.detail for key in DOCUMENTED):
            continue
        if f.issue == "RESOURCE_STAR" and set(f.detail) <= EVERY:
            continue
        yield f


def main():
    policies = json.load(sys.stdin)["policies"]
    if not policies:
        sys.exit("there are no policies: were the templates read?")
    wrong = 0
    for p in policies:
        for f in findings(p):
            wrong += 1
            print(f"{p['name']}: {f.issue}: {f.detail} {json.dumps(f.location, default=str)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
