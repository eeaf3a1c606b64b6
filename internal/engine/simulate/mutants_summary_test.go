package simulate

// summaryMutants break the summary, by which a tick chooses the records that it reads.
var summaryMutants = []mutant{
	{
		rule: "summary: whatever changes the record of a task writes its row with it",
		file: "record/summary/keep.go",
		old:  "if len(rows) == 0 {",
		new:  "if len(rows) >= 0 {",
		says: "the summary says what the records say",
	}, {
		rule: "summary: of two rows of a task, that of the later revision counts",
		file: "record/summary/summary.go",
		old:  "case row.Revision > s.rows[row.Task].Revision:",
		new:  "case row.Revision > 0:",
		test: "record/summary TestRead_TheHigherRevisionCounts",
	}, {
		rule: "summary: whether a task that was removed is there again is read from its record",
		file: "record/summary/summary.go",
		old:  "s.unsure[row.Task] = true",
		new:  "_ = 0",
		test: "record/summary TestRead_RecordOfATaskThatWasRemovedIsRead",
	}, {
		rule: "summary: the notes are removed once the shards have what they say",
		file: "record/summary/summary.go",
		old:  "concerned[shardKey(row.Task)] = true\n\t\t}\n\t}\n\treturn s.write(",
		new:  "_ = row\n\t\t}\n\t}\n\treturn s.write(",
		says: "the summary says what the records say",
	}, {
		rule: "summary: a task at rest whose condition shows something else concerns the tick",
		file: "engine/reconcile/chosen.go",
		old:  "answer.Err != nil || !row.Shows(answer.Digest)",
		new:  "answer.Err != nil && !row.Shows(answer.Digest)",
		says: "",
	}, {
		rule: "summary: a task at rest that is due concerns the tick",
		file: "engine/reconcile/chosen.go",
		old:  "return clock.Reached(row.Due, now) ||",
		new:  "return",
		test: "engine/reconcile TestTick_ReadsTheRecordsOfTheTasksThatConcernIt",
	}, {
		rule: "summary: the record of a task that is in no configuration is read",
		file: "engine/reconcile/chosen.go",
		old:  "if !t.configured(row.Task) {",
		new:  "if false {",
		says: "",
	},
}
