# What the plan of a task may do. conftest refuses a plan with a deny.
package main

import rego.v1

private := ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]

# Only private addresses may get into a rule.
deny contains message if {
	some change in input.plan.resource_changes
	change.type == "local_file"
	address := trim_prefix(trim_space(change.change.after.content), "allow ")
	not is_private(address)
	message := sprintf("%s: %s is not a private address", [change.address, address])
}

# Of the entries of a task, at most 3 may go at once.
deny contains message if {
	gone := count(input.entries.removed)
	gone > 3
	message := sprintf("%d entries are gone: %s", [gone, concat(", ", input.entries.removed)])
}

is_private(address) if {
	some range in private
	net.cidr_contains(range, address)
}
