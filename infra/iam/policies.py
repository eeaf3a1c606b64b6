"""Prints templates as CloudFormation gets them, and every policy as IAM gets it, as JSON:
{"templates": {file: template}, "policies": [{"name", "document"}...]}.

usage: policies.py TEMPLATE...

Functions of CloudFormation become texts in the form of what they stand for, such as ARNs. Of an
Fn::If it takes the first branch, with which there are more rights.
"""

import json
import os
import re
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-west-1")  # for the translator

from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.translator.transform import transform  # noqa: E402

ACCOUNT, REGION = "123456789012", "eu-west-1"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:name-AbCdEf"
PARAMETER = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/name"

PSEUDO = {
    "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::URLSuffix": "amazonaws.com", "AWS::StackName": "terrapulse",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/terrapulse/1", "AWS::NoValue": None,
}

# What parameters of other forms are, by their names; other ARNs are of a secret, or of an SSM parameter.
PARAMETERS = {
    "KmsKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555",
    "TerraformImage": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/terraform:1.16.4",
    "TaskRoleArns": [f"arn:aws:iam::{ACCOUNT}:role/network"],
    "OidcProviderArn": f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com",
}

# The ARNs of resources, by their types.
ARNS = {
    "AWS::DynamoDB::Table": "dynamodb:{r}:{a}:table/{n}", "AWS::S3::Bucket": "s3:::{l}", "AWS::Logs::LogGroup": "logs:{r}:{a}:log-group:/{n}:*",
    "AWS::Lambda::Function": "lambda:{r}:{a}:function:{n}", "AWS::IAM::Role": "iam::{a}:role/{n}", "AWS::SQS::Queue": "sqs:{r}:{a}:{n}",
    "AWS::SNS::Topic": "sns:{r}:{a}:{n}", "AWS::ECS::Cluster": "ecs:{r}:{a}:cluster/{n}", "AWS::Events::Rule": "events:{r}:{a}:rule/{n}",
    "AWS::IAM::OIDCProvider": "iam::{a}:oidc-provider/{n}",
}


class NoManagedPolicies:
    def load(self):
        return {}


class Resolver:
    def __init__(self, template):
        self.template = template

    def arn(self, name):
        kind = self.template["Resources"][name]["Type"]
        return "arn:aws:" + ARNS[kind].format(r=REGION, a=ACCOUNT, n=name, l=name.lower())

    def ref(self, name):
        if name in PSEUDO:
            return PSEUDO[name]
        parameter = self.template.get("Parameters", {}).get(name)
        if parameter is None:
            kind = self.template["Resources"][name]["Type"]
            if kind in ("AWS::SNS::Topic", "AWS::IAM::OIDCProvider"):
                return self.arn(name)
            return name.lower() if kind == "AWS::S3::Bucket" else name
        if name in PARAMETERS:
            return PARAMETERS[name]
        if re.search(r"Arns?$", name):
            return [SECRET, PARAMETER]
        return str(parameter.get("Default") or name.lower())

    def resolve(self, value):
        if isinstance(value, list):
            flat = []
            for v in value:
                v = self.resolve(v)
                flat += v if isinstance(v, list) else [] if v is None else [v]
            return flat
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (function, of), = value.items()
            if function == "Ref":
                return self.ref(of)
            if function.startswith("Fn::"):
                return getattr(self, function[4:].lower())(of)
        return {k: r for k, r in ((k, self.resolve(v)) for k, v in value.items()) if r is not None}

    def getatt(self, of):
        name, attribute = of if isinstance(of, list) else of.split(".", 1)
        return self.arn(name) if attribute == "Arn" else attribute.lower()

    def sub(self, of):
        text, given = (of, {}) if isinstance(of, str) else of

        def one(m):
            name = m[1]
            value = self.resolve(given[name]) if name in given else self.getatt(name) if "." in name else self.ref(name)
            return value[0] if isinstance(value, list) else str(value)

        return re.sub(r"\$\{([^}!]+)\}", one, text)

    def join(self, of):
        return of[0].join(self.resolve(of[1]))

    def split(self, of):
        value = self.resolve(of[1])
        return value if isinstance(value, list) else value.split(of[0])

    def select(self, of):
        values = self.resolve(of[1])
        return values if values == [SECRET, PARAMETER] else values[int(of[0])]  # the first may be either

    def findinmap(self, of):
        return "value"

    def __getattr__(self, name):
        if name == "if":
            return lambda of: next((v for v in map(self.resolve, of[1:]) if v is not None), None)
        raise AttributeError(name)


def load(file):
    with open(file) as f:
        template = yaml_parse(f.read())
    if "Transform" not in template:
        return template
    # The translator wants to know where functions are; policies do not depend on it.
    template.get("Globals", {}).get("Function", {}).pop("CodeUri", None)
    for r in template["Resources"].values():
        for kind, key in (("AWS::Serverless::Function", "CodeUri"), ("AWS::Serverless::LayerVersion", "ContentUri")):
            if r["Type"] == kind:
                r["Properties"][key] = "s3://bucket/key"
    values = {k: p["Default"] for k, p in template["Parameters"].items() if "Default" in p}
    return transform(template, values, NoManagedPolicies())


def policies(file, template):
    resolver = Resolver(template)
    for name, r in template["Resources"].items():
        properties = r.get("Properties", {})
        found = [(p["PolicyName"], p["PolicyDocument"]) for p in properties.get("Policies", []) if "PolicyDocument" in p]
        found += [(key, properties[key]) for key in ("PolicyDocument", "AssumeRolePolicyDocument") if key in properties]
        for what, document in found:
            yield {"name": f"{file}: {name}, {what}", "document": resolver.resolve(document)}


if __name__ == "__main__":
    templates = {file: load(file) for file in sys.argv[1:]}
    json.dump({"templates": templates, "policies": [p for file, t in templates.items() for p in policies(file, t)]}, sys.stdout)
