# Tests of the rules: conftest verify --policy policy
package main

import rego.v1

plan(content) := {"entries": {"removed": []}, "plan": {"resource_changes": [{
	"address": "local_file.rule",
	"type": "local_file",
	"change": {"actions": ["create"], "after": {"content": content}},
}]}}

test_private_address_passes if {
	count(deny) == 0 with input as plan("allow 10.0.0.1\n")
}

test_public_address_is_denied if {
	deny == {"local_file.rule: 203.0.113.9 is not a private address"} with input as plan("allow 203.0.113.9\n")
}

test_removed_resource_passes if {
	count(deny) == 0 with input as {"entries": {"removed": ["web-1"]}, "plan": {"resource_changes": [{
		"type": "local_file",
		"change": {"actions": ["delete"], "after": null},
	}]}}
}

test_more_than_3_entries_are_denied if {
	count(deny) == 1 with input as {"entries": {"removed": ["a", "b", "c", "d"]}, "plan": {"resource_changes": []}}
}
