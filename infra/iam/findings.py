"""Compares what checkov and cloudsplaining find in templates and policies with what is accepted.

usage: findings.py PAGE
stdin: what policies.py prints. PAGE has one table of what is accepted. It prints findings that are not in the table,
and rows without a finding, and exits with 1 then.
"""

import json
import logging
import os
import re
import sys
import tempfile

RISKS = ("allows_privilege_escalation", "permissions_management_without_constraints", "allows_data_exfiltration_actions",
         "credentials_exposure", "infrastructure_modification", "service_wildcard")


def accepted(page):
    with open(page) as f:
        tables = f.read().split("\n| finding |")[1:]
    if len(tables) != 1:
        sys.exit(f"{page} has {len(tables)} tables of findings: put all that are accepted in one")
    for row in tables[0].partition("\n\n")[0].splitlines()[2:]:
        finding, where = re.findall(r"`([\w-]+)`", row.split("|")[1])[0], row.split("|")[2]
        for resource in re.findall(r"`(\w+)`", where):
            yield finding, resource


def of_templates(templates):
    """checkov reads no YAML with merge keys, and so gets JSON."""
    logging.disable(logging.CRITICAL)  # it warns of what it does not support
    from checkov.cloudformation.runner import Runner
    from checkov.runner_filter import RunnerFilter
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, f"{i}.json") for i in range(len(templates))]
        for file, template in zip(files, templates):
            with open(file, "w") as f:
                json.dump(template, f, indent=1)
        report = Runner().run(root_folder=None, files=files, runner_filter=RunnerFilter(framework=["cloudformation"]))
    if len(report.passed_checks) < 100:
        sys.exit("checkov has read too little: was something renamed?")
    return {(c.check_id, c.resource.rpartition(".")[2]): c.check_name for c in report.failed_checks}


def of_policies(policies):
    from cloudsplaining.scan.policy_document import PolicyDocument
    found = {}
    for p in policies:
        document = p["document"]
        if any("Principal" in s for s in document["Statement"]):
            continue  # of a resource or a trust
        for risk in RISKS:
            if actions := getattr(PolicyDocument(document), risk):
                found[risk, re.search(r": (\w+),", p["name"])[1]] = actions
    return found


def main(page):
    known = set(accepted(page))
    read = json.load(sys.stdin)
    found = of_templates(list(read["templates"].values())) | of_policies(read["policies"])
    for (finding, resource), what in sorted(found.items()):
        if (finding, resource) not in known:
            print(f"{resource}: {finding}: {what}. Mend it, or add it with a reason to {page}")
    for finding, resource in sorted(known - found.keys()):
        print(f"{page}: {resource} has no finding {finding}: remove the row")
    sys.exit(known != found.keys())


if __name__ == "__main__":
    main(*sys.argv[1:])
