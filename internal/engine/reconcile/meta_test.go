package reconcile_test

func metaOf(o map[string]any) map[string]any {
	meta, _ := o["metadata"].(map[string]any)
	return meta
}
