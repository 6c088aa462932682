package handler_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func request() *handler.SyncRequest {
	parent, err := resource.New([]byte(`{"apiVersion":"example.com/v1","kind":"Greeting",` +
		`"metadata":{"name":"hi","namespace":"default","uid":"1","resourceVersion":"7"},"spec":{"text":"hello"}}`))
	if err != nil {
		fmt.Println(err)
	}
	child, err := resource.New([]byte(`{"apiVersion":"v1","kind":"ConfigMap",` +
		`"metadata":{"name":"hi","namespace":"default","uid":"2","resourceVersion":"8"},"data":{"text":"hello"}}`))
	if err != nil {
		fmt.Println(err)
	}
	return &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(child)}
}

func ExampleSyncFunc() {
	sync := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		text, _ := req.Parent.Field("spec", "text")
		return &handler.SyncResponse{
			Status: map[string]any{"greeted": req.Children.OfType(k8s.ConfigMap).Len() > 0},
			Children: []any{map[string]any{
				"apiVersion": "v1",
				"kind":       "ConfigMap",
				"metadata":   map[string]any{"name": req.Parent.Name()},
				"data":       map[string]any{"text": text},
			}},
		}, nil
	})
	response, err := sync.Sync(context.Background(), request())
	fmt.Println(response.Status, err)
	// Output: map[greeted:true] <nil>
}

func ExampleTyped() {
	type Greeting struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Text string `json:"text"`
		} `json:"spec"`
	}
	h := handler.Typed(func(_ context.Context, parent Greeting, _ handler.Children) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: parent.Name},
			Data:       map[string]string{"text": parent.Spec.Text},
		}}}, nil
	})
	response, err := h.Sync(context.Background(), request())
	fmt.Println(response.Children[0].(*corev1.ConfigMap).Data, err)
	// Output: map[text:hello] <nil>
}

func ExampleFuncs() {
	h := handler.Funcs{
		SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return nil, errors.New("the database is asleep")
		},
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		},
		ErrorFunc: func(_ context.Context, _ *handler.SyncRequest, err error) (any, time.Duration) {
			return map[string]any{"error": err.Error()}, time.Minute
		},
	}
	response, err := h.Sync(context.Background(), request())
	fmt.Println(response.Status, response.Resync, err)
	// Output: map[error:the database is asleep] 1m0s the database is asleep
}

func ExampleChildrenAs() {
	for configMap, err := range handler.ChildrenAs[corev1.ConfigMap](request(), k8s.ConfigMap) {
		fmt.Println(configMap.Name, configMap.Data, err)
	}
	// Output: hi map[text:hello] <nil>
}

func ExampleKeep() {
	h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		response := &handler.SyncResponse{}
		for child := range req.Children.All() {
			response.Children = append(response.Children, handler.Keep(child)) // leave every child as it is
		}
		return response, nil
	})
	response, err := h.Sync(context.Background(), request())
	fmt.Println(len(response.Children), err)
	// Output: 1 <nil>
}

func ExampleAfter() {
	database := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "database"}}
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{
			database,
			handler.After(web, database), // created once the database is ready
		}}, nil
	})
	response, err := h.Sync(context.Background(), request())
	fmt.Println(len(response.Children), err)
	// Output: 2 <nil>
}

func ExamplePermanent() {
	h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if _, ok := req.Parent.Field("spec", "recipient"); !ok {
			return nil, handler.Permanent(errors.New("spec.recipient is missing")) // trying again is no use
		}
		return &handler.SyncResponse{}, nil
	})
	_, err := h.Sync(context.Background(), request())
	fmt.Println(err)
	// Output: spec.recipient is missing
}

func ExampleParentAs() {
	type Greeting struct {
		Spec struct {
			Text string `json:"text"`
		} `json:"spec"`
	}
	greeting, err := handler.ParentAs[Greeting](request())
	fmt.Println(greeting.Spec.Text, err)
	// Output: hello <nil>
}

func ExampleChildren() {
	children := request().Children
	_, found := children.Find(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hi"}})
	fmt.Println(children.Len(), found)
	// Output: 1 true
}

func ExampleView() {
	configMaps := request().Children.OfType(k8s.ConfigMap)
	if configMap, ok := configMaps.Get("default", "hi"); ok {
		text, _ := configMap.Field("data", "text")
		fmt.Println(text)
	}
	fmt.Println(configMaps.Exists("default", "bye"))
	// Output:
	// hello
	// false
}
