package manifests

import "sigs.k8s.io/yaml"

// Files returns the objects as files, by their paths: one for each part, and one for
// each CustomResourceDefinition.
func (m *Manifests) Files() (map[string][]byte, error) {
	files, _, err := m.files()
	return files, err
}

// Kustomize returns Files with the kustomization.yaml that makes a base of them.
func (m *Manifests) Kustomize() (map[string][]byte, error) {
	files, order, err := m.files()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": order})
	if err != nil {
		return nil, err
	}
	files["kustomization.yaml"] = append([]byte(m.header), text...)
	return files, nil
}

// files returns the files of the objects, and their paths in the order in which the
// objects are to be created.
func (m *Manifests) files() (files map[string][]byte, order []string, err error) {
	files = map[string][]byte{}
	for _, c := range m.crds {
		path := "crds/" + c.Name + ".yaml"
		files[path], order = c.text, append(order, path)
	}
	for _, p := range m.parts {
		if !p.wanted || len(p.objects) == 0 {
			continue
		}
		path := p.name + ".yaml"
		if files[path], err = p.yaml(); err != nil {
			return nil, nil, err
		}
		order = append(order, path)
	}
	return files, order, nil
}
