// Package uninstall prints what the subcommand uninstall is about to do, and what it has
// left:
//
//	uninstall.PrintPlan(w, departure, how)
//	uninstall.PrintLeft(w, departure, how, uninstall.Installation{Program: "shop", Namespace: "shop-system"})
//
// It imports the rooms leave and lead for what they found out, and decides nothing. It has no
// state and starts no goroutine.
package uninstall
