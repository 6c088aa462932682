// Package shards has replicas share the parents of an operator on a real API server, while
// people change the parents all the time: replicas come and go, one is killed, one is frozen,
// and a rolling upgrade divides an operator that wasn't. The audit log tells who held which
// Lease when, and who wrote for which parent. An oracle finds that nobody wrote for a parent of
// a shard that they didn't hold, and that nobody began before the one before had ended.
//
//	go test ./test/shards
//	SHARDS_PARENTS=2000 SHARDS_RATE=100 SHARDS_ROUNDS=5 go test -v -timeout=30m ./test/shards
//
// SHARDS_RATE is what people do each second, and SHARDS_ROUNDS how often replicas are killed and frozen. The test prints how long takeovers took. SHARDS_FIGURES=1 measures what replicas need that
// share 20,000 parents, or SHARDS_PARENTS:
//
//	SHARDS_FIGURES=1 go test -v -timeout=2h -run=TestFigures ./test/shards
package shards
