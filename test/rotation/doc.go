// Package rotation replaces the credentials of running operators on a real API
// server: tokens, client certificates and certificate authorities in files. No
// operator is restarted, and each must serve a new parent within the time that
// docs/guide/running.md promises.
package rotation
