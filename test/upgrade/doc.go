// Package upgrade takes an operator the whole road from one build to the next on a real API
// server, under load: its CustomResourceDefinition first, the plan, replicas that are replaced
// one by one, a bad build that is rolled back, the migration of what is stored, and the end of
// the old version. The audit log says that nobody wrote beside another, and that nothing was
// made twice or anew.
package upgrade
