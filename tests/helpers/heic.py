"""A photograph as phones save it. No library of the tests writes HEIC."""

import base64
import zlib

# 32x24 px turned by EXIF orientation 6 and the container's own turn, focal length 26 mm of 35 mm
# film, by pillow-heif 1.8: upright the left half is green above and blue below, the right one red
_PACKED = (
    "c-muNV30{GsVvAy&8%Pmg51nBLl8SRGck>Uf$?N+YDppk1Sn>t<P<^K3<a6VB@Af5Br_*J8N_gLU|?ck1hE+3LTD"
    "g(3KRnZrb}=UCm^=S%*;yz^FXqqKu#)H8Bk3|S+XGmk{}~UiEBkBSUF!oW=SpsR3#%vW<gN_ko`QfAUPjMmjm@WG"
    "qP|1ne!|_isU{p{Q3Xm2Ll5?a{^F@xC0{(<NyC41<YU-%s?f(m>d#;a#~J|jHnV5SOgR{-3`4QbBD!5LI5bnH~}O"
    "f(2xXF&f&s%uvo%C0w}~FoSdIil$V@S0TkzDU~2#hiDVWRq(c4c0L2=~If)?GDnMM%AOWKP|Ns906beB41~fDT3N"
    "kA)K^mDkI6z+E%q+?;0Xm35GP58T7AuSljBJfe%&aYKK#o*qQED1gf-gCxI2jxdpb*l}O-Ter*h3A*^_(ZNOFk*j"
    "4BmhJ{~zNM9{L7%X4jTyF(_=Xsr8)Se(Lq|-UExAbe8B8ns*3uoekV`$ZX35nJE?f99Dc)H-D9Py)$=pl>N<vFI!"
    "s;+-<BcNQWqGdKP`6aI#yH`USUddBu}MZZ1tc_s`^d@L8AaZC)*FnYQ1Y(UarySU|_CHHk|@C1{zt{{Hr?hgEC6i"
    "<eH~s1aNivsfmf=BkgJbx*SVJB7gdxmNS^F8DF;zddV{L{ijhZ>3$cFP(LZ<Ys31u4mf#-tx7?GfCU5@3C_vrG42"
    "Q?!~v*zIb1oqo69i5fpfAkW}L9%b*41aWF733V|XL7!Yg>4DFc=EYN^ggM{D`R;a8LB;){s62tl"
)
BYTES = zlib.decompress(base64.b85decode(_PACKED))
WIDTH, HEIGHT = 24, 32  # upright
RED, GREEN, BLUE = (200, 40, 30), (20, 180, 60), (30, 60, 220)
