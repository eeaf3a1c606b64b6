package simulate

// orderMutants break what holds for tasks that come after others.
var orderMutants = []mutant{
	{
		rule: "the order: a task waits for those that come before it",
		seed: orderSeeds + 1,
		file: "engine/decide/order.go",
		old:  "if d.order == nil || !t.run || d.pastApproval() {",
		new:  "if true || d.order == nil || !t.run || d.pastApproval() {",
		says: "a task comes after its predecessors",
	}, {
		rule: "the order: an approved plan waits, too",
		file: "engine/decide/order.go",
		old:  "if d.order == nil || !t.run || d.pastApproval() {",
		new:  "if d.order == nil || !t.run || d.waits() {",
		test: "engine/decide TestOrder_HoldsEveryTrigger",
	}, {
		rule: "the order holds along a chain",
		seed: orderSeeds + 1,
		file: "engine/decide/order.go",
		old:  "if b = o.before(name); b != nil {",
		new:  "if b = nil; b != nil {",
		says: "a task comes after its predecessors",
	}, {
		rule: "the order: a request for a predecessor that comes while a tick decides is decided first",
		seed: orderSeeds,
		file: "engine/reconcile/order.go",
		old:  "changes = append(changes, state.Check(records[key]))",
		new:  "_ = key",
		says: "a task comes after its predecessors",
	}, {
		rule: "the order: a request in each tick keeps no other task from running",
		seed: orderSeeds + requestsFirst, stride: requestsEvery,
		file: "engine/reconcile/order.go",
		old:  "	return decide.Order{Tasks: now.Config.Order()}, nil\n",
		new:  "	for i := range t.Config.Tasks {\n\t\tt.left[t.Config.Tasks[i].Name] = true\n\t}\n\treturn decide.Order{Tasks: now.Config.Order()}, nil\n",
		says: "requests in each tick delay no other task",
	}, {
		rule: "the order: a launch depends on no record that requests write",
		seed: orderSeeds + requestsFirst, stride: requestsEvery,
		file: "engine/reconcile/order.go",
		old:  "	records := map[string]state.Record{}\n",
		new:  "	records := map[string]state.Record{state.ReconcileKey: b.tick.rec.Record}\n",
		says: "requests in each tick delay no other task",
	}, {
		rule: "the order: a change that came while a tick read is not overtaken",
		file: "engine/reconcile/order.go",
		old:  "decided && digest != answers[i].Digest || !decided",
		new:  "false && digest != answers[i].Digest || false && !decided",
		test: "engine/reconcile TestOrder_AChangeThatThePredecessorWasNotReadWithIsNotOvertaken",
	}, {
		rule: "destroys: what comes after a task is destroyed first",
		seed: orderSeeds + removalFirst, stride: removalEvery,
		file: "engine/decide/order_destroy.go",
		old:  "if first := o.opposite.first[i]; len(first) > 0 {",
		new:  "if first := o.opposite.first[i]; len(first) < 0 {",
		says: "destroys have the opposite order",
	}, {
		rule: "destroys: nothing is destroyed while a run of what comes after it is under way",
		seed: orderSeeds + removalFirst + 180*removalEvery, stride: removalEvery,
		file: "engine/decide/order_destroy.go",
		old:  "case s.Run != nil && s.Run.Wait == nil:",
		new:  "case false:",
		says: "destroys have the opposite order",
	}, {
		rule: "destroys: nothing is destroyed while HCP Terraform applies what comes after it",
		seed: remoteOrderSeeds + removalFirst + 180*removalEvery, stride: removalEvery,
		file: "engine/decide/order_destroy.go",
		old:  "case s.Elsewhere():",
		new:  "case false:",
		says: "destroys have the opposite order",
	}, {
		rule: "destroys: nothing is destroyed while a remote run of what comes after it is to be stopped",
		seed: remoteOrderSeeds + removalFirst + 275*removalEvery, stride: removalEvery,
		file: "engine/decide/order_destroy.go",
		old:  "case left != nil && !left",
		new:  "case false && !left",
		says: "destroys have the opposite order",
	}, {
		rule: "destroys: the order holds along tasks that stay",
		seed: orderSeeds + removalFirst, stride: removalEvery,
		file: "engine/decide/order_destroy.go",
		old:  "default:\n\t\t\tfor _, i := range c.before(name) {",
		new:  "default:\n\t\t\tfor _, i := range c.before(\"\") {",
		says: "destroys have the opposite order",
	}, {
		rule: "destroys: a request to destroy a successor that comes while a tick decides is decided first",
		file: "engine/decide/order_destroy.go",
		old:  "return nil, o.opposite.behind[i]",
		new:  "return nil, nil",
		test: "engine/reconcile TestOrder_ARequestToDestroyTheSuccessorComesFirst",
	},
}
