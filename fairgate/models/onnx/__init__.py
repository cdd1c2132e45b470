"""Exported models in ONNX, run by onnxruntime."""
