package main

// inMerge returns the mutants of comparison, merge and managedFields.
func inMerge() []mutant {
	return []mutant{
		unit("entries of a subresource are disowned by nobody", "merge", "merge/disown.go",
			"		if entry.Manager != manager || entry.Subresource != \"\" {", "		if entry.Manager != manager {"),
		unit("what an apply drops stays ours while it is there", "merge", "merge/managed_fields.go",
			"	out.add(metav1.ManagedFieldsOperationUpdate, version, dropped.Difference(others), now)\n", ""),
		unit("what an apply drops is left to whoever owns it", "merge", "merge/managed_fields.go",
			"dropped.Difference(others)", "dropped"),
		unit("what is left to others is given up", "merge", "merge/managed_fields.go",
			"withoutPaths(o.sets[i].Difference(wanted), left)", "o.sets[i].Difference(wanted)"),
		unit("a field that others apply, too, stays", "merge", "merge/managed_fields.go",
			"	if shared.Empty() {\n", "	if true {\n"),
		unit("what others own isn't made anew", "merge", "merge/made.go",
			"!ownsAny(ours, f.live) || ownsAny(others, f.live)", "!ownsAny(ours, f.live)"),
		unit("metadata isn't made anew", "merge", "merge/made.go",
			" || below.part == partMetadata || ", " || "),
		unit("a list that may have keys isn't owned whole", "merge", "merge/holdings.go",
			"		return d.Live != nil\n", "		return true\n"),
		unit("a foreign item awaits the schema", "merge", "merge/pending.go",
			"wanted.contains(have, i) && !p.former.hasItem(have, nil) {", "false && wanted.contains(have, i) {"),
		unit("a foreign item in a pending list stays", "merge", "merge/pending.go",
			"		if found < 0 || taken[found] ||", "		if found < 0 { continue }\n		if taken[found] ||"),
		unit("items are told apart before they are removed", "merge", "merge/pending.go",
			"		return !p.awaitsSchema() || key.unique(live)\n", "		return true || key.unique(live)\n"),
	}
}
