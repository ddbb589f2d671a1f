"""An AMD GPU as the files of its driver show it, here in a folder."""

from pathlib import Path

# As drivers of three generations print it.
RDNA2 = """PROFILE_INDEX(NAME) CLOCK_TYPE(NAME) FPS MinActiveFreqType MinActiveFreq
 0 BOOTUP_DEFAULT*:
                    0(       GFXCLK)       0       5       1       0       4     800
                    1(       SOCCLK)       0       5       1       0       1       0
 1 3D_FULL_SCREEN :
                    0(       GFXCLK)       0       5       1       0       4     650
 5        COMPUTE :
                    0(       GFXCLK)       0       5       1       0       0       0
"""
RDNA3 = """                              0 BOOTUP_DEFAULT* 1 3D_FULL_SCREEN  2 POWER_SAVING    5 COMPUTE
                  FPS              0              0              0              0
"""
POLARIS = """NUM        MODE_NAME     SCLK_UP_HYST   SCLK_DOWN_HYST SCLK_ACTIVE_LEVEL
  0   BOOTUP_DEFAULT:        -                -                -
  1 3D_FULL_SCREEN *:        0              100               30
  5          COMPUTE:        0                5               30
"""


class Card:
    """What /sys/class/drm/cardN holds of a GPU."""

    def __init__(self, sysroot: Path, number: int, table: str = RDNA2, vendor: str = "0x1002") -> None:
        self.device = sysroot / f"sys/class/drm/card{number}/device"
        self.monitor = self.device / "hwmon/hwmon3"
        self.monitor.mkdir(parents=True)
        (self.device / "vendor").write_text(f"{vendor}\n")
        (self.device / "pp_power_profile_mode").write_text(table)
        (self.device / "power_dpm_force_performance_level").write_text("auto\n")
        for name, watts in (("", 225), ("_min", 100), ("_max", 250)):
            (self.monitor / f"power1_cap{name}").write_text(f"{watts}000000\n")

    @property
    def written(self) -> tuple[str, str, str]:
        """Performance level, the first line of the profiles' file, limit."""
        profile = (self.device / "pp_power_profile_mode").read_text().splitlines()[0]
        level = (self.device / "power_dpm_force_performance_level").read_text().strip()
        return level, profile, (self.monitor / "power1_cap").read_text().strip()
