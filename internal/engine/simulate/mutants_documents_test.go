package simulate

// documentMutants break the rules by which Consul is read.
var documentMutants = []mutant{
	{
		rule: "documents: no resources are none only with the right to read them",
		seed: documentSeeds,
		file: "taskfile/condition/resources.go",
		old:  "return fmt.Sprintf(\"every resource %s that the task selects%s\", v.kind, v.scope), []Right{v.right(\"\", true)}",
		new:  "return \"\", nil",
		says: "only what Consul shows is applied",
	}, {
		rule: "documents: a config entry is gone only if it may be read",
		seed: documentSeeds,
		file: "taskfile/condition/configentries.go",
		old:  "return []Right{s.view.right(source.Name, false)}",
		new:  "return nil",
		says: "only what Consul shows is applied",
	}, {
		rule: "documents: what a run finds empty is empty after the proof, too",
		file: "consul/visibility.go",
		old:  "return v.client.stillEmpty(ctx, v.empty)",
		new:  "return nil",
		test: "consul TestVisibility_RightThatIsGivenAfterTheRead",
	}, {
		rule: "documents: an answer that is cut short shows nothing",
		file: "consul/client.go",
		old:  "err = decodeBody(resp.Body, decode)",
		new:  "_ = decodeBody(resp.Body, decode)",
		test: "consul TestClient_AnswerThatIsCutShortIsAnError",
	}, {
		rule: "documents: what has no index is polled again after its interval",
		seed: documentSeeds,
		file: "consul/paced.go",
		old:  "age < 0 || age >= every(v)",
		new:  "age < 0",
		says: "is applied soon",
	},
}
