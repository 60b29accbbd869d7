"""LBFGS, a quasi-Newton method with limited memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.missing import show_public
from ..core.short_repr import short_repr
from ..graph.modes import enable_grad, no_grad
from ..ops.create.creation import zeros_like
from ..ops.shape.joining import cat
from ..tensor.tensor import Tensor
from .line_search import strong_wolfe
from .optimizer import Optimizer
from .options import require_rate
from .updates import as_real

Loss = Callable[[], Any]


class LBFGS(Optimizer):
    """Steps by minus the gradient times an estimate of the inverse Hessian.

    The estimate is made from recent changes of the parameters and of the gradients.

    Raises  ValueError for a negative rate or several groups; RuntimeError for an unknown line
            search
    Source  Nocedal and Wright 2006, "Numerical Optimization", algorithms 7.4, 3.5 and 3.6; the
            bounds of the line search are taken from Mark Schmidt's minFunc, as in PyTorch
    Note    a step calls its closure at most max_eval times. All parameters are flattened into one
            real vector (a complex number counts as two), so they must be on one device
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        require_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        params: list[Tensor] = self.param_groups[0]["params"]
        return params

    def step(self, closure: Loss) -> Any:
        """Update all parameters; return the result of closure, called with grad mode on."""
        assert len(self.param_groups) == 1, "LBFGS has one group"
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(
                f"only 'strong_wolfe' is supported, not {short_repr(group['line_search_fn'])}; "
                "or None"
            )
        # The state of all parameters is in the first parameter's entry, so that load_state_dict
        # converts the state to the dtype and device of that parameter.
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with no_grad():
            with enable_grad():
                loss = closure()
            state["func_evals"] += 1
            gradient = self._gradient()
            if gradient.abs().max() > group["tolerance_grad"]:
                self._iterate(group, state, closure, float(loss), gradient)
        return loss

    def _iterate(
        self,
        group: dict[str, Any],
        state: dict[str, Any],
        closure: Loss,
        loss: float,
        gradient: Tensor,
    ) -> None:
        evaluations, lr = 1, _number(group["lr"])
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            t = lr
            if state["n_iter"] == 1:
                t = min(1.0, 1.0 / gradient.abs().sum()) * lr
            state["d"], state["t"] = d, t
            slope = gradient.dot(d)
            if slope > -group["tolerance_change"]:
                return
            before = loss
            if group["line_search_fn"] is not None:
                loss, gradient, t, count = strong_wolfe(
                    self._at(closure, d),
                    t,
                    d,
                    loss,
                    gradient,
                    slope,
                    most=group["max_eval"] - evaluations,
                )
                self._move(d, t)
            else:
                self._move(d, t)
                count = 0
                if iteration != group["max_iter"]:
                    with enable_grad():
                        loss = float(closure())
                    gradient, count = self._gradient(), 1
            state["t"] = t
            evaluations += count
            state["func_evals"] += count
            if (
                evaluations >= group["max_eval"]
                or gradient.abs().max() <= group["tolerance_grad"]
                or d.mul(t).abs().max() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                return

    def _direction(self, state: dict[str, Any], gradient: Tensor, most: int) -> Tensor:
        """Return minus the product of the estimated inverse Hessian and the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return gradient.neg()
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        change, moved = gradient.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(moved)
        if curvature > 1e-10:
            if len(dirs) == most:
                del dirs[0], steps[0], ro[0]
            dirs.append(change)
            steps.append(moved)
            ro.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        weights = state.setdefault("al", [None] * most)
        way = gradient.neg()
        for i in reversed(range(len(dirs))):
            weights[i] = steps[i].dot(way) * ro[i]
            way.add_(dirs[i], alpha=-_number(weights[i]))
        way = way.mul(state["H_diag"])
        for i in range(len(dirs)):
            back = dirs[i].dot(way) * ro[i]
            way.add_(steps[i], alpha=_number(weights[i] - back))
        return way

    def _at(self, closure: Loss, d: Tensor) -> Callable[[Any], tuple[float, Tensor]]:
        """Return a function of a distance t that returns the loss and the gradient at t * d.

        At the end of each call, the function restores the parameters.
        """
        start = [parameter.clone() for parameter in self._params]

        def at(t: Any) -> tuple[float, Tensor]:
            self._move(d, t)
            with enable_grad():
                loss = float(closure())
            gradient = self._gradient()
            for parameter, value in zip(self._params, start, strict=True):
                parameter.copy_(value)
            return loss, gradient

        return at

    def _gradient(self) -> Tensor:
        flat = []
        for parameter in self._params:
            gradient = self.gradient_of(parameter)
            found = zeros_like(parameter) if gradient is None else gradient.detach().to_dense()
            flat.append(as_real(found).reshape(-1))
        return cat(flat, 0)

    def _move(self, d: Tensor, t: Any) -> None:
        offset = 0
        for parameter in self._params:
            room = as_real(parameter)
            count = room.numel()
            room.add_(d[offset : offset + count].reshape(room.shape), alpha=_number(t))
            offset += count


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


show_public(__name__)
