package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/redirect"
)

const (
	// nameLabel is the label of Pods that has the name of their program, as manifests sets it.
	nameLabel = "app.kubernetes.io/name"
	// maxPods bounds how many Pods are asked.
	maxPods = 10
	// defaultPort is that of the metrics of a container that doesn't say.
	defaultPort = 8080
	// maxList bounds a list of Pods, in bytes.
	maxList = 16 << 20
)

// An apiServer sends requests to the API server.
type apiServer struct {
	client *http.Client
	url    *url.URL
}

// askPods asks the Pods of a program, through the API server.
func askPods(ctx context.Context, rc *rest.Config, p Process, q Question) (explain.Process, error) {
	rc = rest.CopyConfig(rc)
	rc.Wrap(redirect.Refuse) // the response is a Pod's own, and the request has the caller's credentials
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		return explain.Process{}, err
	}
	base, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return explain.Process{}, err
	}
	api := apiServer{client, base}
	pods, err := api.pods(ctx, p)
	if err != nil {
		return explain.Process{}, err
	}
	var best *explain.Process
	var errs []error
	for _, pod := range pods {
		known, err := api.ask(ctx, &pod, q)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("Pod %s/%s: %w", pod.Namespace, pod.Name, err))
			continue
		case best == nil || known.Leading && !best.Leading:
			best = &known
		}
		if best.Leading {
			break
		}
	}
	if best == nil {
		return explain.Process{}, errors.Join(errs...)
	}
	return *best, nil
}

// pods returns the Pods of a program that run.
func (a apiServer) pods(ctx context.Context, p Process) ([]corev1.Pod, error) {
	path := "/api/v1/pods"
	where := "in any namespace"
	if p.Namespace != "" {
		path, where = "/api/v1/namespaces/"+url.PathEscape(p.Namespace)+"/pods", "in the namespace "+p.Namespace
	}
	selector := nameLabel + "=" + p.Program
	answer, err := a.get(ctx, path, url.Values{"labelSelector": {selector}, "limit": {"100"}})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxList))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list Pods %s: %w; --process-namespace and --process-url say where it is", where, refusal(answer, body))
	}
	var list corev1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list Pods %s: %w", where, err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })
	if len(pods) == 0 {
		return nil, fmt.Errorf("no Pod with the label %s runs %s; --process-namespace and --process-url say where it is", selector, where)
	}
	return pods[:min(len(pods), maxPods)], nil
}

// ask asks the process of a Pod. What the Pod says of TLS may be wrong: the program's own code may ask
// for it, or for none. The answer tells then.
func (a apiServer) ask(ctx context.Context, pod *corev1.Pod, q Question) (explain.Process, error) {
	secure := isSecure(pod)
	known, err := a.askBy(ctx, pod, secure, q)
	if errors.As(err, new(*schemeError)) {
		return a.askBy(ctx, pod, !secure, q)
	}
	return known, err
}

// askBy asks the process of a Pod, with TLS or without.
func (a apiServer) askBy(ctx context.Context, pod *corev1.Pod, secure bool, q Question) (explain.Process, error) {
	port := portOf(pod)
	target := pod.Name + ":" + strconv.Itoa(port)
	if secure {
		target = "https:" + target
	}
	answer, err := a.get(ctx, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+target+"/proxy"+explain.Path, q.query())
	if err != nil {
		return explain.Process{}, err
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") && answer.StatusCode != http.StatusOK { // a Status of the API server
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if err != nil {
			return explain.Process{}, err
		}
		return explain.Process{}, schemed(fmt.Errorf("it can't be asked through the API server: %w", refusal(answer, body)))
	}
	return read(answer, func(string) error {
		return fmt.Errorf("it is protected, and answers %s, since the API server passes no token on; run kubectl -n %s port-forward pod/%s %d, and use --process-url https://localhost:%d --process-insecure --process-token-file FILE",
			answer.Status, pod.Namespace, pod.Name, port, port)
	})
}

// portOf returns the port of a Pod's metrics.
func portOf(pod *corev1.Pod) int {
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "metrics" {
				return int(port.ContainerPort)
			}
		}
	}
	for _, c := range pod.Spec.Containers {
		for _, arg := range c.Args {
			if address, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "metrics-bind-address="); ok {
				if _, port, err := net.SplitHostPort(address); err == nil {
					if n, err := strconv.Atoi(port); err == nil && n > 0 {
						return n
					}
				}
			}
		}
	}
	return defaultPort
}

// isSecure says whether a Pod's metrics are served with TLS.
func isSecure(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool {
			name := strings.TrimLeft(arg, "-")
			return name == "metrics-secure" || name == "metrics-secure=true"
		})
	})
}

// get makes a request.
func (a apiServer) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	u := *a.url
	u.Path, u.RawQuery = strings.TrimSuffix(u.Path, "/")+path, query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	return a.client.Do(req)
}

// refusal returns what the API server says in an answer that isn't a success.
func refusal(answer *http.Response, body []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil || status.Message == "" {
		return errors.New(answer.Status)
	}
	return errors.New(status.Message)
}
