package buggy

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// A bank has accounts.
type bank interface {
	// Open opens an account, and returns its number.
	Open(ctx context.Context, owner string) (number string, err error)
	// Put opens an account with a number that the caller has chosen. If it is open already, that is no error.
	Put(ctx context.Context, number, owner string) error
}

// An account has one account in the bank. It outlives its Account, since there may be money in it.
type account struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            accountStatus `json:"status"`
}

type accountStatus struct {
	Number string `json:"number"`
}

var accountOperator = config.Operator{Name: "accounts", Parent: kind("Account")}

// accounts opens an account in the bank for each Account, and notes its number in the status.
//
// The bug: between Open and the write of the status much can happen. If the process ends, the
// bank's answer is lost or the write fails, the next pass opens another account, and nobody knows
// of the first one. Have the same call mean the same account: by a number that follows from the
// parent, such as its UID, or by what many APIs call an idempotency key.
func accounts(b bank) handler.Handler {
	return handler.Typed(func(ctx context.Context, a *account, _ handler.Children) (*handler.SyncResponse, error) {
		if a.Status.Number == "" && !handler.IsPlan(ctx) {
			number, err := b.Open(ctx, a.Namespace+"/"+a.Name)
			if err != nil {
				return nil, fmt.Errorf("bank: %w", err)
			}
			a.Status.Number = number
		}
		return &handler.SyncResponse{Status: a.Status}, nil
	})
}
