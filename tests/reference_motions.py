"""Reference solutions that share no code with the library: closed forms, and reduced equations integrated by RK4."""

from __future__ import annotations

import numpy as np


def rk4(f, y, x, dx):
    """One classical Runge–Kutta step of dy/dx = f(x, y)."""
    k1 = f(x, y)
    k2 = f(x + dx / 2, y + dx / 2 * k1)
    k3 = f(x + dx / 2, y + dx / 2 * k2)
    k4 = f(x + dx, y + dx * k3)
    return y + dx / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def bisect(f, lo, hi):
    """Root of f between lo and hi, where it changes its sign."""
    positive = f(lo) > 0
    for _ in range(100):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if (f(mid) > 0) == positive else (lo, mid)
    return 0.5 * (lo + hi)


# Ball ---------------------------------------------------------------------------------------------------------------


def bounces(height, speed, e, gravity, count, xp=np):
    """Instants of the first impacts of a ball thrown from a height, and the speeds after them."""
    v = xp.sqrt(speed**2 + 2 * gravity * height)
    t = (speed + v) / gravity
    times, speeds = [], []
    for _ in range(count):
        v = e * v
        times.append(t)
        speeds.append(v)
        t = t + 2 * v / gravity
    return times, speeds


# Mass on the slope y = exp(−x), as a motion along it ------------------------------------------------------------------


def slope_motion(case, times, mu=0.3, gravity=10.0, dt=1e-4):
    """Positions (x, y) of the unit mass at the given times, and the instants at which sliding stops."""

    def acceleration(x, v, sign):
        f = np.exp(-x)
        root = np.sqrt(1 + f * f)
        normal = gravity / root + f / root**3 * v * v
        return gravity * f / root - mu * normal * sign

    def rates(sign):
        return lambda t, y: np.array([y[1] / np.sqrt(1 + np.exp(-2 * y[0])), acceleration(*y, sign)])

    t, x, v = 0.0, 0.0, {1: 0.0, 2: 1.0, 3: -1.0, 4: None}[case]
    sign = -1.0 if case == 3 else 1.0
    fall = 0.0
    if case == 4:  # free fall by 0.5 onto the slope at 45°, then an impact without rebound
        fall = np.sqrt(2 * 0.5 / gravity)
        normal, along = gravity * fall / np.sqrt(2), gravity * fall / np.sqrt(2)
        v = along - mu * normal
        t = fall
    state, stops, rests, path = np.array([x, v]), [], False, []
    for wanted in times:
        if wanted < fall:
            path.append([0.0, 1.5 - 0.5 * gravity * wanted**2])
            continue
        while t < wanted - 1e-15 and not rests:
            step = min(dt, wanted - t)
            new = rk4(rates(sign), state, t, step)
            if new[1] * sign >= 0:
                state, t = new, t + step
                continue

            # Speed as the independent variable leads exactly to the stop.
            def by_speed(v, y, sign=sign):
                a = acceleration(y[0], v, sign)
                return np.array([v / np.sqrt(1 + np.exp(-2 * y[0])) / a, 1 / a])

            y, v0 = np.array([state[0], t]), state[1]
            for k in range(10):
                y = rk4(by_speed, y, v0 * (1 - k / 10), -v0 / 10)
            state, t = np.array([y[0], 0.0]), y[1]
            stops.append(t)
            f = np.exp(-state[0])
            rests = f <= mu  # the slope is flatter than the friction angle
            sign = 1.0
        path.append([state[0], np.exp(-state[0])])
    return np.array(path), stops


# Block on a belt ------------------------------------------------------------------------------------------------------


class Belt:
    """Unit mass with a spring on a belt of speed v0 (1 + a sin Ωt): harmonic arcs, joined where the slip vanishes."""

    def __init__(self, k=100.0, mu=0.4, gravity=9.81, v0=0.3, a=0.8, Omega=7.0):
        self.omega2, self.mg, self.v0, self.a, self.Omega = k, mu * gravity, v0, a, Omega

    def speed(self, t):
        return self.v0 * (1 + self.a * np.sin(self.Omega * t))

    def travel(self, t):
        return self.v0 * (t - self.a / self.Omega * np.cos(self.Omega * t))

    def acceleration(self, t):
        return self.v0 * self.a * self.Omega * np.cos(self.Omega * t)

    def run(self, x, u, times):
        """Positions at the given times, and the events as (instant, "stick" | "slip" | "reverse")."""
        omega = np.sqrt(self.omega2)
        t, t_end, events, arcs = 0.0, times[-1], [], []
        sign = np.sign(u - self.speed(0.0))
        while t < t_end:
            if sign == 0:
                x0 = x - self.travel(t)

                def arc(s, x0=x0):
                    return x0 + self.travel(s), self.speed(s)

                def indicator(s, arc=arc):
                    return self.mg - abs(self.omega2 * arc(s)[0] + self.acceleration(s))

            else:
                offset = -sign * self.mg / self.omega2

                def arc(s, t=t, x=x, u=u, c=offset):
                    phase = omega * (s - t)
                    A, B = x - c, u / omega
                    return c + A * np.cos(phase) + B * np.sin(phase), omega * (B * np.cos(phase) - A * np.sin(phase))

                def indicator(s, arc=arc, sign=sign):
                    return sign * (arc(s)[1] - self.speed(s))

            grid = np.arange(t + 1e-6, t_end + 1e-3, 1e-4)
            below = np.flatnonzero(np.array([indicator(s) for s in grid]) < 0)
            end = bisect(indicator, grid[below[0]] - 1e-4, grid[below[0]]) if below.size and below[0] else t_end + 1.0
            arcs.append((t, min(end, t_end), arc))
            if end >= t_end:
                break
            t, (x, u) = end, arc(end)
            needed = self.omega2 * x + self.acceleration(t)  # friction force that would hold the block
            if sign == 0:
                sign = -np.sign(needed)
                events.append((t, "slip"))
            elif abs(needed) <= self.mg:
                sign, u = 0.0, self.speed(t)
                events.append((t, "stick"))
            else:
                sign = -np.sign(needed)
                events.append((t, "reverse"))
        positions = [next(arc(s)[0] for a, b, arc in arcs if a <= s <= b + 1e-12) for s in times]
        return np.array(positions), events
