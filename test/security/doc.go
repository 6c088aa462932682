// Package security attacks an operator on a real API server: by what the author
// of a parent can write, by what others can put into a cluster, and over its
// own listeners; and it looks for values of Secrets in all that a process puts
// out. SECURITY.md says what is promised.
package security
