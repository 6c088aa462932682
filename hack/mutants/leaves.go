package main

// inLeaves returns the mutants of the packages below the engine, and of testkit.
func inLeaves() []mutant {
	one := func(name, pkg, file, was, is string) mutant {
		return mutant{name, []edit{{pkg + "/" + file, was, is}}, pkg}
	}
	const apierror, recording, testkit = "internal/apierror", "internal/recording", "testkit"
	return []mutant{
		one("a controller is of the parent's kind", "resource", "resource.go", " && schema.FromAPIVersionAndKind(o.apiVersion, o.kind).GroupKind() == owner\n", " && (true || owner.Empty())\n"),
		one("a controller has the parent's UID", "resource", "resource.go", "return o.uid == string(uid) && ", "return uid != \"\" && "),
		one("an owner that isn't the controller doesn't control", "resource", "resource.go", "		if err == nil && o.controller == isTrue {\n			return o.uid ==", "		if err == nil {\n			return o.uid =="),
		one("a reason about a Secret is a known one", apierror, "redact.go", "Reason: knownReason(s.Reason)", "Reason: s.Reason"),
		one("a code about a Secret is a known one", apierror, "redact.go", "Code: knownCode(s.Code)", "Code: s.Code"),
		one("a cause about a Secret is of a known type", apierror, "redact.go", "		c.Type = knownCause(c.Type)\n", ""),
		one("a field of a Secret is one that was sent", apierror, "redact.go", "!hasField(object, field)", "false && !hasField(object, field)"),
		one("the name of a Secret is the one that was asked for", apierror, "redact.go", "		if s.Details.Name == r.Name {\n			details.Name = r.Name\n", "		if true {\n			details.Name = s.Details.Name\n"),
		one("causes about a Secret are in no order of the answer's", apierror, "redact.go", "	shown = slices.Compact(shown)\n", ""),
		one("what isn't an answer about a Secret is hidden", apierror, "redact.go", "shown: withoutAnswer(err)", "shown: err"),
		one("decisions are made by the whole answer", apierror, "redact.go", "		return redacted.message\n", "		return redacted.Error()\n"),
		one("a key ends where the path says", apierror, "vouch.go", "|| rest != \"\" && rest[0]", "|| false && rest[0]"),
		one("a rule is for RBAC's own refusals", apierror, "rbac.go", "	if why == rest {\n		return \"\"\n	}\n", ""),
		one("a rule is for what was asked for", apierror, "rbac.go", "	return ok && (strings.HasPrefix(where,", "	return true || ok && (strings.HasPrefix(where,"),
		one("only an apply may lack the right to create", apierror, "rbac.go", "	if r.Applies {\n", "	if true {\n"),
		one("a value that looks hidden is hidden", recording, "hide.go", "	return func(value string) string {\n		mac", "	return func(value string) string {\n		if strings.HasPrefix(value, \"hidden:\") {\n			return value\n		}\n		mac"),
		one("a recording has no key", recording, "format.go", "header{Format: Format}", "header{Format: Format, Salt: Format}"),
		one("the mark of a Secret is hidden", recording, "hide.go", "strings.HasSuffix(name, markSuffix) || ", "false && strings.HasSuffix(name, markSuffix) || "),
		one("a golden plan has no hash of a value", testkit, "hidden.go", "		return fmt.Sprint(\"hidden:\", numbers[value])\n", "		return fmt.Sprint(\"hidden:\", value)\n"),
	}
}
