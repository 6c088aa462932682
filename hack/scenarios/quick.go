package main

import "strings"

// A quickScenario is one that `make test-quick` runs.
type quickScenario struct {
	test   string
	reason string // why it is among them
}

// quick are the scenarios that tell most for the time that they take: together less than half a
// minute, with a good part of the engine in each.
func quick() []quickScenario {
	return []quickScenario{
		{"TestC1_ParentWithChildConverges", "create, and delete with the parent"},
		{"TestC2_FailingHandlerIsRetried", "errors of the handler, backoff, other parents beside it"},
		{"TestC3_FinalizeIsRetried", "the finalizer's whole life"},
		{"TestC4_DeletedChildComesBack", "the watch of children leads to their parent"},
		{"TestC10_ServerDefaultedFields", "silence: what the API server adds is no difference, with every strategy"},
		{"TestC30_DroppedFieldsDisappear", "update in place, three-way, with every strategy, Apply too"},
		{"TestC32_DriftIsReverted", "what others change is put right, with every strategy"},
		{"TestC33_RecreateImmutable", "Recreate: one delete, one create"},
		{"TestC37_ConflictsInTheMiddle", "409 and 404 in the middle of a pass, and reading one's own writes"},
		{"TestC40_NameTakenByForeignObject", "ownership: what is foreign isn't touched, unless it may be adopted"},
		{"TestC42_ForeignNamespaceAndClusterScopedChild", "ownership: where children may be; an invalid response writes nothing"},
		{"TestC60_ChangeOnEveryCall", "loops are noticed and slowed down"},
		{"TestC62_SecretsStaySecret", "values of Secrets in no log, event, metric, trace or plan"},
		{"TestC74b_PlanIsWhatIsDone", "plan says what a run does"},
		{"TestC74_RestartWithEverythingConverged", "a restart writes nothing"},
		{"TestC80_RelatedSecret", "related objects: watched, shown, and waking their parents"},
		{"TestC100_NeverReadyTooEarly", "readiness at every resourceVersion of a rollout"},
		{"TestC104_GateOpens", "gates: what waits for another child"},
		{"TestC108_OrderedTeardown", "gates backwards: deletion in order"},
		{"TestC116_RollLimit", "rollouts: the limit holds"},
	}
}

// quickPattern is what -run of go test takes for them.
func quickPattern() string {
	var names []string
	for _, s := range quick() {
		names = append(names, s.test)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}
