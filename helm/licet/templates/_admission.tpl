{{- define "licet.admissionVersion" -}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version -}}
admissionregistration.k8s.io/v1
{{- else -}}
admissionregistration.k8s.io/v1beta1
{{- end -}}
{{- end -}}
