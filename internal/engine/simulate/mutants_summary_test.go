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
	}, {
		rule: "summary: a process that knows the rows reads them again after another one has folded notes",
		file: "record/summary/summary.go",
		old:  "&& records[last].Version == s.head {",
		new:  "{",
		test: "record/summary TestRead_AnotherLeaderHasFoldedMeanwhile",
	}, {
		rule: "summary: a shard that cannot be decoded has the summary made anew",
		file: "record/summary/summary.go",
		old:  "if err != nil {\n\t\t\t\ts.known = false",
		new:  "if err != nil {\n\t\t\t\ts.known = s.known",
		test: "record/summary TestRebuild_WhatCannotBeDecodedIsMadeAnew",
	}, {
		rule:   "summary: without a head, it is written although no row is wrong",
		file:   "record/summary/summary.go",
		old:    "if s.known && len(wrong) == 0 &&",
		new:    "if len(wrong) == 0 &&",
		says:   "a summary that was lost is made anew",
		seed:   1060 + spoiltFirst,
		stride: spoiltEvery,
	}, {
		rule: "summary: it is made anew from all records",
		file: "record/summary/summary.go",
		old:  "row = Of(task, record.Data)\n\t\t}\n\t\ts.rows[task] = row",
		new:  "row = Of(task, record.Data)\n\t\t}\n\t\tif was, known := before[task]; known { row = was }\n\t\ts.rows[task] = row",
		test: "record/summary TestRebuild_WhatCannotBeDecodedIsMadeAnew",
	}, {
		rule: "summary: one that is made anew has every shard",
		file: "record/summary/summary.go",
		old:  "if !s.known { // shards",
		new:  "if false { // shards",
		test: "record/summary TestRebuild_ShardsThatAreLostMeanwhileAreMissed",
	}, {
		rule: "summary: each write that removes notes has a new head",
		file: "record/summary/summary.go",
		old:  "changes = append(changes, change(Head, s.head, state.Encode(head{s.writes})))",
		new:  "if len(changes) < ChangesAtOnce { changes = append(changes, change(Head, s.head, state.Encode(head{s.writes}))) }",
		says: "a process that knew the summary before",
	}, {
		rule: "summary: the last write of a fold has what the tick leaves, and releases the lease",
		file: "record/summary/summary.go",
		old:  "flush(last, true)",
		new:  "flush(apply, true)",
		test: "record/summary TestSummary_LastWriteOfAFoldMayLackTheRecords",
	},
}
