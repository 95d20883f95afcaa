// Checks definitions of kinds as a real API server does when they are applied: forms, schemas, defaults, and what
// their rules may cost. One argument: a folder of YAML files. Prints a line for each fault and ends with 1 if there is one.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.yaml"))
	if err != nil || len(files) == 0 {
		fmt.Println("no definitions in", os.Args[1], err)
		os.Exit(1)
	}
	faults := 0
	for _, file := range files {
		for _, fault := range check(scheme, file) {
			fmt.Println(filepath.Base(file)+":", fault)
			faults++
		}
	}
	if faults > 0 {
		os.Exit(1)
	}
}

func check(scheme *runtime.Scheme, file string) []error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return []error{err}
	}
	var definition v1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
		return []error{err}
	}
	scheme.Default(&definition)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(&definition, &internal, nil); err != nil {
		return []error{err}
	}
	var found []error
	for _, fault := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		found = append(found, fault)
	}
	return found
}
