package main

// inDefinitions returns the mutants of what installs and migrates CustomResourceDefinitions.
func inDefinitions() []mutant {
	compare := func(name, was, is string) mutant {
		return mutant{name, []edit{{"internal/crd/compare.go", was, is}}, "internal/crd"}
	}
	return []mutant{
		compare("a field that is removed narrows", "			c.narrow(join(path, name), \"removed; its values would be dropped\")\n", ""),
		compare("a type that changes narrows", "		c.narrow(join(path, \"type\"), ", "		_ = fmt.Sprintf("),
		compare("a field that is required now narrows", "			c.narrow(join(path, textOf(name)), \"required now, and without a default\")\n", ""),
		compare("a stored version that is dropped is told", "			c.Stored = append(c.Stored, name)\n", ""),
		compare("an older build lacks the newest version", "			c.narrow(\"\", \"removed, and newer than every version of this build\")\n", ""),
		compare("a new storage version may lack fields", "	if from, to := installed.Storage(), next.Storage(); from.Name != to.Name && !next.converts() {", "	if from, to := installed.Storage(), next.Storage(); false {"),
		compare("a scope doesn't change", "	if installed.ClusterScoped != next.ClusterScoped {", "	if false {"),
		unit("a build older than what is installed is refused", "definitions", "definitions/install.go",
			"	if at >= 0 && at < len(history)-1 {", "	if false {"),
		unit("what narrows is refused", "definitions", "definitions/install.go",
			"	if len(change.Narrowed) > 0 && !s.opts.AllowNarrowed {", "	if false {"),
		unit("a stored version that is dropped is refused", "definitions", "definitions/install.go",
			"	if len(change.Stored) > 0 {", "	if false {"),
		unit("an older build isn't told to migrate", "definitions", "definitions/install.go",
			"	if len(change.Stored) > 0 && crd.Older(s.wanted, change.Stored) {", "	if false {"),
		unit("a definition is written as it was read", "definitions", "definitions/install.go",
			"	body[\"metadata\"].(map[string]any)[\"resourceVersion\"] = s.live.metadata()[\"resourceVersion\"] //nolint:forcetypeassert // Object makes it\n", ""),
		unit("a definition is established before the operator begins", "definitions", "definitions/install.go",
			"\"crd\", s.wanted.Name)\n			return s.awaitServed(ctx)\n", "\"crd\", s.wanted.Name)\n			return nil\n"),
		unit("who created a definition has applied it", "definitions", "definitions/requests.go",
			"	if err := r.claim(ctx, &installed{Definition: crd.Of(made), object: made}); apierrors.IsForbidden(err) {\n		return err\n	}\n", "	_ = made\n"),
		unit("fields of a process that was killed are applied ones before the next write", "definitions", "definitions/install.go",
			"	case s.claims(s.live) != nil:\n		return true, s.claim(ctx, s.live)\n", ""),
		unit("an API server that begins again is asked once more", "definitions", "definitions/install.go",
			"		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):\n", "		case true:\n"),
		unit("a definition that is being deleted is waited for", "definitions", "definitions/install.go",
			"		if s.live == nil || !s.live.deleting() {", "		if true {"),
		unit("what a build leaves out is taken away", "definitions", "definitions/install.go",
			"	return !s.known() || slices.Contains(s.installs(), s.wanted.Digest())\n", "	return true\n"),
		unit("stored versions are dropped when every object is rewritten", "definitions", "definitions/migrate.go",
			"			err = m.rewriteAll(ctx)\n", "			_ = m.rewriteAll(ctx)\n"),
		unit("an object that can't be rewritten is a failure", "definitions", "definitions/migrate.go",
			"				failures = append(failures, err)\n", ""),
		unit("each page is rewritten", "definitions", "definitions/migrate.go",
			"opts.Continue = list.Continue; opts.Continue == \"\"", "opts.Continue = list.Continue; true"),
		unit("who rolls back midway has objects rewritten once more", "definitions", "definitions/migrate.go",
			"		case now.metadata()[\"generation\"] != before.metadata()[\"generation\"]:\n", "		case false:\n"),
		unit("another storage version ends a migration", "definitions", "definitions/migrate.go",
			"		case now.Storage().Name != storage:\n", "		case false:\n"),
		unit("each API server has noticed before objects are rewritten", "definitions", "definitions/migrate.go",
			"	if left <= 0 {\n", "	if true {\n"),
		unit("the right to end a migration is asked for first", "definitions", "definitions/migrate.go",
			"	if err := r.setStored(ctx, live, live.Storage().Name, true); err != nil && !apierrors.IsConflict(err) {\n", "	if err := error(nil); err != nil {\n"),
	}
}
