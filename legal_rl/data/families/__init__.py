"""One module per family of questions; `FAMILY_MAKERS` maps a family's name to its generator."""

from legal_rl.data.families.base import Family
from legal_rl.data.families.choice import multiple_choice
from legal_rl.data.families.compare import compare_precedents
from legal_rl.data.families.direct import no_retrieval
from legal_rl.data.families.locate import locate
from legal_rl.data.families.proviso import proviso
from legal_rl.data.families.recite import recite
from legal_rl.data.families.sentencing import sentencing_range

FAMILY_MAKERS: dict[str, Family] = {
    "recite": recite,
    "locate": locate,
    "sentencing_range": sentencing_range,
    "multiple_choice": multiple_choice,
    "proviso": proviso,
    "compare_precedents": compare_precedents,
    "no_retrieval": no_retrieval,
}
