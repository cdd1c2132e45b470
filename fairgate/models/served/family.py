"""`openai:@SERVER?model=ID`: a language model that sees, behind a server with the chat-completions protocol.

`?chat=TEXT` has the words around a suite's questions, in the user's message; `?question=TEXT` is asked about each
picture, and labels are weighed by their likelihood as the answer, if the server returns log-probabilities of a text
that it is given (vLLM does). Nothing binds a server's answers to weights: the fingerprint is new at each opening, the
record has what the server reports of itself, and that needs an approval. No answer is taken from the cache.
"""

from __future__ import annotations

import base64
import io
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import split_options
from fairgate.models.contract import Capability, Floats, Model, Request, log_softmax, register
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.served.server import Completion, Server, report_in_words, server_of
from fairgate.models.vlm.asking import IMAGE, QUESTION, asked_texts, read_asking, read_chat

CODE_VERSION = 1  # raise it when a server is asked otherwise
_AT_ONCE = 8  # requests
_READ = 64  # pictures that are read at once
_KEPT = 128  # tokens
Reply = TypeVar("Reply")


@register
class ServedFamily:
    """Models of servers that this machine names."""

    scheme: ClassVar[str] = "openai"
    forms: ClassVar[tuple[str, ...]] = ("openai:@SERVER?model=ID", "openai:@SERVER?model=ID&question=TEXT")
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"answer", "log_probabilities"})

    def local_path(self, _address: str) -> Path | None:
        """None: an address names no file."""
        return None

    def open(self, request: Request) -> Model:
        """Ask the server for its report of the model. Raises ModelError."""
        named, options = split_options(request.uri, request.address, ("model", "chat", "question"))
        if not named.startswith("@") or "model" not in options or {"chat", "question"} <= set(options):
            raise ModelError(
                "the URI needs the server's name and the model's, and a chat or a question, not both.",
                where=request.uri,
                remedy="write openai:@NAME?model=ID, with FAIRGATE_SERVER_NAME set to its address where fairgate runs",
            )
        model, server = options["model"], server_of(named.removeprefix("@"), options["model"], request.uri)
        if "question" in options:
            asking = read_asking(request.uri, {"prompt": options["question"]}).prompt
            return WeighingServed(request, server, model, asking)
        return AnsweringServed(request, server, model, read_chat(request.uri, options.get("chat", QUESTION)))


class ServedModel:
    """A base of models behind a server. `served` is what the server reports of it."""

    capabilities: ClassVar[frozenset[Capability]]
    precision: ClassVar[str] = "served"
    device: ClassVar[str] = "server"
    preparation: ClassVar[str] = f"openai/{CODE_VERSION}"
    tokenizer: ClassVar[str | None] = None
    preprocessing: ClassVar[str | None] = None

    def __init__(self, request: Request, server: Server, model: str, asking: str) -> None:
        self.uri, self._request, self._server, self._model, self._asking = request.uri, request, server, model, asking
        self._report = server.report(model)
        self.served = f"server {server.name}, model {model}: {report_in_words(self._report)}"
        self.fingerprint = digest({"served": self.served, "asking": asking, "opened": secrets.token_hex(16)})

    def _replies(self, rows: Sequence[int], ask: Callable[[int, str], Reply], known: dict[int, Reply]) -> None:
        """Put `ask(row, picture)` of the rows that are not known into `known`, which keeps what was answered when
        something fails. Raises ModelError, also if the server changed its report meanwhile."""
        source, todo = self._request.source, {row for row in rows if row not in known}
        batches = source.image_batches(_READ) if todo else ()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ask") as threads:
            for numbers, blobs in batches:
                pairs = [(int(row), data) for row, data in zip(numbers, blobs, strict=True) if int(row) in todo]
                asked = {threads.submit(self._reply, ask, row, data): row for row, data in pairs}
                try:
                    for reply in as_completed(asked):
                        known[asked[reply]] = reply.result()
                        if self._request.progress:
                            self._request.progress(len(known), len(rows))
                except BaseException:
                    with self._server.halted():
                        threads.shutdown(cancel_futures=True)
                    known |= {row: reply.result() for reply, row in asked.items() if _is_there(reply)}
                    raise
        if todo:
            self._require_unchanged(self._server.report(self._model))

    def _reply(self, ask: Callable[[int, str], Reply], row: int, data: bytes) -> Reply:
        return ask(row, self._picture(data, row))

    def _complete(self, text: str, picture: str, answer: str | None = None, **options: Any) -> Completion:
        """The reply to a text about a picture; to its continuation, if an answer is given."""
        before, after = text.split(IMAGE)
        shown = {"type": "image_url", "image_url": {"url": picture}}
        words = [{"type": "text", "text": part} if part.strip() else None for part in (before, after)]
        content = [part for part in (words[0], shown, words[1]) if part]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if answer is not None:
            messages.append({"role": "assistant", "content": answer})
        reply = self._server.complete(self._model, messages, **options)
        self._require_unchanged({**self._report, **reply.served_by})
        return reply

    def _require_unchanged(self, report: dict[str, Any]) -> None:
        if report != self._report:
            raise ModelError(
                f"the server changed during the run: it reported {report_in_words(self._report)}, and then "
                f"{report_in_words(report)}.",
                where=self.uri,
                remedy="run it again when the server keeps one model",
            )

    def _picture(self, data: bytes, row: int) -> str:
        """A picture as a `data:` address: its pixels alone, and nothing that its file says of place and time."""
        image = decode_rgb(data, self._request.source, row)
        image.info.clear()
        image.save(buffer := io.BytesIO(), "PNG", compress_level=1)
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _is_there(reply: Any) -> bool:
    return reply.done() and not reply.cancelled() and reply.exception() is None


class AnsweringServed(ServedModel):
    """Answers a suite's questions."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"answer"})

    def __init__(self, request: Request, server: Server, model: str, asking: str) -> None:
        super().__init__(request, server, model, asking)
        self._answers: dict[str, dict[int, str]] = {}

    def answer(self, prompts: Sequence[str], longest: int) -> NDArray[np.object_]:
        """The answer to each picture's prompt, in at most `longest` tokens: (images,); "" where none is. Of those that
        this run asked before, none is asked again. Raises DatasetError or ModelError."""
        texts = asked_texts(self._asking, prompts, self.uri)
        answers = self._answers.setdefault(digest([longest, *texts]), {})

        def ask(row: int, picture: str) -> str:
            text = self._complete(texts[row], picture, max_tokens=longest).text
            if text is None:
                raise ModelError(
                    f"the server's reply holds no text (about {name_of(self._request.source, row)}).",
                    where=self.uri,
                    remedy="raise the probe's `longest`: a model that thinks first may have used all of its tokens",
                )
            return text.strip()

        self._replies([row for row, text in enumerate(texts) if text], ask, answers)
        return np.array([answers.get(row, "") for row in range(len(texts))], dtype=object)


class WeighingServed(ServedModel):
    """Weighs labels by their likelihood as the answer to one question.

    A label is the end of a text that the server is given. All tokens before the first one in which the labels differ
    are alike, and cancel.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities"})

    def __init__(self, request: Request, server: Server, model: str, asking: str) -> None:
        super().__init__(request, server, model, asking)
        self._ends: dict[str, dict[int, End]] = {}
        self._begun: dict[str, dict[int, list[End]]] = {}

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax, over these labels, of their log-likelihoods, summed over tokens: (images, labels) float64."""
        rows = range(len(self._request.source))
        if missing := [label for label in dict.fromkeys(prompts) if label not in self._ends]:
            begun = self._begun.setdefault(digest(missing), {})
            self._replies(rows, lambda _, picture: [self._end(label, picture) for label in missing], begun)
            for place, label in enumerate(missing):
                self._ends[label] = {row: ends[place] for row, ends in begun.items()}
        likelihoods = [label_likelihoods([self._ends[label][row] for label in prompts], self.uri) for row in rows]
        return log_softmax(np.stack(likelihoods))

    def _end(self, label: str, picture: str) -> End:
        reply = self._complete(
            self._asking,
            picture,
            label,
            max_tokens=1,
            prompt_logprobs=0,
            add_generation_prompt=False,
            continue_final_message=True,
        )
        places = reply.prompt_logprobs or []
        tokens = [item for place in places[1:] for item in (place or {}).items()]
        if not tokens or any(place is None or len(place) != 1 for place in places[1:]):
            raise ModelError(
                "the server returns no log-probabilities of a text that it is given (`prompt_logprobs`), by which "
                "labels are weighed.",
                where=self.uri,
                remedy="serve the model by vLLM, or ask a suite's questions: a URI without question=",
            )
        kept = tokens[-_KEPT:]
        return End(len(tokens) - len(kept), [token for token, _ in kept], [seen.logprob for _, seen in kept])


@dataclass(frozen=True, slots=True)
class End:
    """The last tokens of a text, from a place on, and the log-probability of each."""

    start: int
    tokens: list[str]
    numbers: list[float]


def label_likelihoods(ends: Sequence[End], where: str) -> Floats:
    """The log-likelihoods of labels, up to one constant: (labels,). Of each, the end of a text that it ends.

    Raises ModelError for two labels that are one text, and for a label of more tokens than are kept.

    >>> label_likelihoods([End(7, ["a", "b"], [-1.0, -2.0]), End(7, ["a", "c", "d"], [-1.0, -3.0, -1.0])], "")
    array([-2., -4.])
    """
    start = max(end.start for end in ends)
    tokens = [end.tokens[start - end.start :] for end in ends]
    numbers = [end.numbers[start - end.start :] for end in ends]
    if len(ends) > 1 and len(set(map(tuple, tokens))) < len(ends):
        raise ModelError("two labels are one text to the model.", where=where, remedy="give labels that differ")
    alike = [len(set(place)) == 1 for place in zip(*tokens, strict=False)]
    shared = alike.index(False) if False in alike else len(alike)
    if len(ends) > 1 and not shared:
        raise ModelError(f"a label has more than about {_KEPT} tokens.", where=where, remedy="give shorter labels")
    return np.array([sum(own[shared:]) for own in numbers], dtype=np.float64)
