// Package planfile reads the files of plan -f: the parents as somebody would have them.
//
//	parents, err := planfile.Read([]string{"shop.yaml", "-"}, os.Stdin)
//
// It knows YAML, JSON, several documents in a file, and Lists. Each object has the place
// that it comes from, for errors and for annotations of a pull request. The package reads
// the files that it is given and makes no request; it starts no goroutine.
package planfile
