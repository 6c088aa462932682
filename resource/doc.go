// Package resource says what an object is: its kind (Type), how the API server
// serves that kind (Mapping), and one observed object (Resource).
//
// A Resource is immutable. It holds the object's compact JSON and its parsed
// metadata; everything else is decoded when it is asked for:
//
//	r, err := resource.New(data)
//	if err != nil {
//		return err // names what is wrong or missing
//	}
//	fmt.Println(r.Type(), r.Key(), r.IsDeleting())
//
//	replicas, ok := r.Field("spec", "replicas")
//	pod, err := resource.As[corev1.Pod](r)
package resource
