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
		seed: orderSeeds, stride: 3,
		file: "engine/decide/order.go",
		old:  "if d.order == nil || !t.run || d.pastApproval() {",
		new:  "if d.order == nil || !t.run || d.waits() {",
		says: "a task comes after its predecessors",
	}, {
		rule: "the order holds along a chain",
		seed: orderSeeds + 1,
		file: "engine/decide/order.go",
		old:  "if b = o.before(name); b != nil {",
		new:  "if b = nil; b != nil {",
		says: "a task comes after its predecessors",
	}, {
		rule: "the order: a request for a predecessor that comes while a tick decides is decided first",
		file: "engine/reconcile/order.go",
		old:  "return []state.Change{state.Check(b.tick.rec.Record)}",
		new:  "return nil",
		test: "engine/reconcile TestOrder_ARequestForThePredecessorComesFirst",
	}, {
		rule: "the order: a change that came while a tick read is not overtaken",
		file: "engine/reconcile/order.go",
		old:  "case decided && digest != answers[i].Digest, !decided",
		new:  "case false && decided && digest != answers[i].Digest, false && !decided",
		test: "engine/reconcile TestOrder_AChangeThatThePredecessorWasNotReadWithIsNotOvertaken",
	},
}
